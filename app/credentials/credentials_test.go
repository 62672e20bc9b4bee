package credentials_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/app/credentials"
	"example.com/stock/lock/locktest/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve accepts TLS connections and echoes, until the end of the test. With a CA it wants a certificate of each client.
func serve(t *testing.T, p servertest.Pair, ca string) (addr string) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			t.Fatal(err)
		}
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(text)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return l.Addr().String()
}

// talk connects, and sends a word there and back.
func talk(ctx context.Context, d credentials.Dialer, addr string) error {
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("word")); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 4))
	return err
}

func files(ca string, p servertest.Pair) credentials.Files {
	file := func(name, path string) credentials.File {
		return credentials.File{Setting: "redis.tls." + name, Path: path}
	}
	return credentials.Files{CA: file("ca", ca), Cert: file("cert", p.Cert), Key: file("key", p.Key)}
}

func TestWhoIsBelieved(t *testing.T) {
	ours, theirs := servertest.NewCA(t, "ours"), servertest.NewCA(t, "theirs")
	good, member, stranger := ours.Issue(t, "127.0.0.1", "db.example"), ours.Issue(t, "member"), theirs.Issue(t, "x")
	none := servertest.Pair{}
	for _, row := range []struct {
		name    string
		server  servertest.Pair
		clients string // the CA that the server wants of its clients
		client  credentials.Files
		config  *tls.Config
		want    string // part of the client's error; "": it is none
	}{
		{"the CA of the server", good, "", files(ours.File, none), &tls.Config{}, ""},
		{"TLS 1.3 at least", good, "", files(ours.File, none), &tls.Config{MinVersion: tls.VersionTLS13}, ""},
		{"a name instead of the address", good, "", files(ours.File, none), &tls.Config{ServerName: "db.example"}, ""},
		{"another name", good, "", files(ours.File, none), &tls.Config{ServerName: "no.example"}, "not no.example"},
		{"another CA", good, "", files(theirs.File, none), &tls.Config{}, "unknown authority"},
		{"the CAs of the system", good, "", files("", none), &tls.Config{}, "unknown authority"},
		{"expired", ours.IssueExpired(t, "127.0.0.1"), "", files(ours.File, none), &tls.Config{}, "expired"},
		{"another address", ours.Issue(t, "127.0.0.2"), "", files(ours.File, none), &tls.Config{}, "not 127.0.0.1"},
		{"a client's certificate", good, ours.File, files(ours.File, member), &tls.Config{}, ""},
		{"no certificate of a client", good, ours.File, files(ours.File, none), &tls.Config{}, "certificate required"},
		{"a client of another CA", good, ours.File, files(ours.File, stranger), &tls.Config{}, "certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			addr := serve(t, row.server, row.clients)
			if err := row.client.AddTo(row.config); err != nil {
				t.Fatal(err)
			}
			switch err := talk(t.Context(), credentials.Dialer{Config: row.config}, addr); {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("error %v, want %q in it", err, row.want)
			}
		})
	}
}

func TestFilesThatCannotBeUsed(t *testing.T) {
	ca := servertest.NewCA(t, "ca")
	a, b := ca.Issue(t, "a"), ca.Issue(t, "b")
	empty := filepath.Join(t.TempDir(), "empty")
	servertest.WriteFile(t, empty, nil)
	for _, row := range []struct {
		files credentials.Files
		want  string
	}{
		{files("/no/ca.pem", servertest.Pair{}), "redis.tls.ca: /no/ca.pem: no such file"},
		{files(empty, servertest.Pair{}), "redis.tls.ca: " + empty + ": has no certificate"},
		{files("", servertest.Pair{Cert: a.Cert, Key: b.Key}), "redis.tls.cert: " + a.Cert + ": "},
		{files("", servertest.Pair{Cert: a.Cert, Key: "/no/key"}), "redis.tls.key: /no/key: no such file"},
	} {
		err := row.files.AddTo(new(tls.Config))
		var bad *credentials.FileError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %s", row.files, err, row.want)
		}
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	file := credentials.File{Setting: "redis.password_file", Path: path}
	if _, err := credentials.Secret(file); err == nil || !strings.HasPrefix(err.Error(), "redis.password_file: "+path) {
		t.Errorf("without a file: %v", err)
	}
	for i, row := range [][2]string{{"a\n", "a"}, {"b\r\n", "b"}, {"c", "c"}, {" d \n\n", " d \n"}, {"", ""}} {
		servertest.WriteFile(t, path, []byte(row[0]))
		if secret, err := credentials.Secret(file); err != nil || secret != row[1] {
			t.Errorf("row %d: %q %v", i, secret, err)
		}
	}
}

// A server without TLS is silent, and the error asks whether it is the right port.
func TestAServerWithoutTLS(t *testing.T) {
	d := credentials.Dialer{Config: new(tls.Config), Timeout: time.Second}
	err := talk(t.Context(), d, servertest.Redis(t).Addr)
	if err == nil || !strings.Contains(err.Error(), "does it speak TLS") {
		t.Errorf("TLS to a server without it: %v", err)
	}
}
