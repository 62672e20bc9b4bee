package credentials_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
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

// A server accepts TLS connections and echoes. It keeps the certificates of its clients.
type server struct {
	addr    string
	mu      sync.Mutex
	clients []string
}

func serve(t *testing.T, files credentials.Files, log *slog.Logger) *server {
	t.Helper()
	config, err := credentials.Server(files, log)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: l.Addr().String()}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				secure := tls.Server(conn, config)
				defer secure.Close()
				if secure.Handshake() != nil {
					return
				}
				s.mu.Lock()
				for _, cert := range secure.ConnectionState().PeerCertificates {
					s.clients = append(s.clients, cert.Subject.CommonName)
				}
				s.mu.Unlock()
				_, _ = io.Copy(secure, secure)
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	return s
}

// talk connects, and sends a word there and back. It returns the name of the server's certificate.
func talk(ctx context.Context, w *credentials.Dialer, addr string) (name string, err error) {
	conn, err := w.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("word")); err != nil {
		return "", err
	}
	if _, err := io.ReadFull(conn, make([]byte, 4)); err != nil {
		return "", err
	}
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func client(t *testing.T, files credentials.Files) *credentials.Dialer {
	t.Helper()
	w, err := credentials.New(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWhoIsBelieved(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	ours, theirs := servertest.NewCA(t, "ours"), servertest.NewCA(t, "theirs")
	good, member, stranger := ours.Issue(t, "127.0.0.1", "db.example"), ours.Issue(t, "member"), theirs.Issue(t, "x")
	of := func(p servertest.Pair, ca string) credentials.Files {
		return credentials.Files{Setting: "tls.", CA: ca, Cert: p.Cert, Key: p.Key}
	}
	named := of(servertest.Pair{}, ours.File)
	named.ServerName = "db.example"
	misnamed := of(servertest.Pair{}, ours.File)
	misnamed.ServerName = "other.example"
	old := of(good, "")
	new13 := of(servertest.Pair{}, ours.File)
	new13.MinVersion = tls.VersionTLS13
	for _, row := range []struct {
		name           string
		server, client credentials.Files
		want           string // part of the client's error; "": it is none
	}{
		{"the CA of the server", of(good, ""), of(servertest.Pair{}, ours.File), ""},
		{"TLS 1.3 at least", old, new13, ""},
		{"a name instead of the address", of(good, ""), named, ""},
		{"another name", of(good, ""), misnamed, "not other.example"},
		{"another CA", of(good, ""), of(servertest.Pair{}, theirs.File), "unknown authority"},
		{"the CAs of the system", of(good, ""), of(servertest.Pair{}, ""), "unknown authority"},
		{"expired", of(ours.IssueExpired(t, "127.0.0.1"), ""), of(servertest.Pair{}, ours.File), "expired"},
		{"another address", of(ours.Issue(t, "127.0.0.2"), ""), of(servertest.Pair{}, ours.File), "not 127.0.0.1"},
		{"a client's certificate", of(good, ours.File), of(member, ours.File), ""},
		{"no certificate of a client", of(good, ours.File), of(servertest.Pair{}, ours.File), "certificate required"},
		{"a client of another CA", of(good, ours.File), of(stranger, ours.File), "certificate"},
		{"an expired client", of(good, ours.File), of(ours.IssueExpired(t, "late"), ours.File), "certificate"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, row.server, quiet)
			switch _, err := talk(t.Context(), client(t, row.client), s.addr); {
			case row.want == "" && err != nil:
				t.Error(err)
			case row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)):
				t.Errorf("error %v, want %q in it", err, row.want)
			}
		})
	}
}

// A client and a server follow their files through a rotation to a new CA, step by step, and each step keeps the
// connections working.
func TestRotation(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	before, after := servertest.NewCA(t, "before"), servertest.NewCA(t, "after")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, p servertest.Pair) {
		servertest.CopyFiles(t, file(name+".cert"), p.Cert)
		servertest.CopyFiles(t, file(name+".key"), p.Key)
	}
	servertest.CopyFiles(t, file("ca"), before.File)
	put("server", before.Issue(t, "first", "127.0.0.1"))
	put("client", before.Issue(t, "client 1"))
	s := serve(t, credentials.Files{
		Setting: "tls.", CA: file("ca"), Cert: file("server.cert"), Key: file("server.key"),
	}, logger)
	w := client(t, credentials.Files{
		Setting: "redis.tls.", CA: file("ca"), Cert: file("client.cert"), Key: file("client.key"),
	})
	says := func(want string) {
		t.Helper()
		if name, err := talk(t.Context(), w, s.addr); name != want || err != nil {
			t.Errorf("the server is %q, %v; want %s", name, err, want)
		}
	}
	says("first")

	servertest.CopyFiles(t, file("ca"), before.File, after.File)
	says("first")
	second := after.Issue(t, "second", "127.0.0.1")
	servertest.CopyFiles(t, file("server.cert"), second.Cert) // halfway: the key is still the old one
	says("first")
	says("first")
	if n := strings.Count(log.String(), "cannot be used"); n != 1 || !strings.Contains(log.String(), "tls.cert") {
		t.Errorf("%d warnings, want one that names tls.cert:\n%s", n, &log)
	}
	servertest.CopyFiles(t, file("server.key"), second.Key)
	says("second")
	put("client", after.Issue(t, "client 2"))
	says("second")
	servertest.CopyFiles(t, file("ca"), after.File)
	says("second")

	put("client", before.Issue(t, "client 3")) // of the CA that is gone
	if _, err := talk(t.Context(), w, s.addr); err == nil {
		t.Error("a client of the CA that was removed gets in")
	}
	if err := os.Remove(file("ca")); err != nil {
		t.Fatal(err)
	}
	put("client", after.Issue(t, "client 4"))
	if _, err := talk(t.Context(), w, s.addr); err == nil {
		t.Error("the client has read its certificate although it cannot read its CA")
	}
	servertest.CopyFiles(t, file("ca"), after.File)
	says("second")
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.clients, ", "); !strings.Contains(got, "client 1, client 1") ||
		!strings.HasSuffix(got, "client 2, client 2, client 4") {
		t.Errorf("clients: %s", got)
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
		{credentials.Files{CA: "/no/ca.pem"}, "redis.tls.ca: /no/ca.pem: no such file"},
		{credentials.Files{CA: empty}, "redis.tls.ca: " + empty + ": has no certificate"},
		{credentials.Files{Cert: a.Cert}, "redis.tls.key: is empty"},
		{credentials.Files{Key: a.Key}, "redis.tls.cert: is empty"},
		{credentials.Files{Cert: a.Cert, Key: b.Key}, "redis.tls.cert: " + a.Cert + ": "},
		{credentials.Files{Cert: a.Cert, Key: "/no/key.pem"}, "redis.tls.key: /no/key.pem: no such file"},
	} {
		row.files.Setting = "redis.tls."
		_, err := credentials.New(row.files, slog.New(slog.DiscardHandler))
		var bad *credentials.FileError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %s", row.files, err, row.want)
		}
	}
	if _, err := credentials.Server(credentials.Files{Setting: "tls."}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a listener without a certificate")
	}
}

// The end is that of the file as it is now, and the earliest of its chain.
func TestEnd(t *testing.T) {
	ca := servertest.NewCA(t, "ca")
	good, expired := ca.Issue(t, "127.0.0.1"), ca.IssueExpired(t, "127.0.0.1")
	pair := servertest.Pair{Cert: filepath.Join(t.TempDir(), "cert"), Key: filepath.Join(t.TempDir(), "key")}
	servertest.CopyFiles(t, pair.Cert, good.Cert)
	servertest.CopyFiles(t, pair.Key, good.Key)
	files := credentials.Files{Setting: "tls.", Cert: pair.Cert, Key: pair.Key}
	listener, err := credentials.Server(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	dialer := client(t, files)
	ended := func(what string, want bool) {
		t.Helper()
		for _, config := range []*tls.Config{listener, dialer.Client("127.0.0.1:1")} {
			if end := credentials.End(config); end.IsZero() || end.Before(time.Now()) != want {
				t.Errorf("%s: the end is %v, which should have passed: %t", what, end, want)
			}
		}
	}
	ended("a good one", false)
	servertest.CopyFiles(t, pair.Cert, good.Cert, expired.Cert)
	ended("a chain with an expired one", true)
	servertest.CopyFiles(t, pair.Cert, good.Cert)
	ended("the chain is repaired", false)
	if end := credentials.End(client(t, credentials.Files{CA: ca.File}).Client("127.0.0.1:1")); !end.IsZero() {
		t.Errorf("a client without a certificate: %v", end)
	}
}

func TestSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	file := credentials.File{Setting: "redis.password_file", Path: path}
	_, err := credentials.Secret(file, credentials.Text, logger)
	if err == nil || !strings.HasPrefix(err.Error(), "redis.password_file: "+path) {
		t.Errorf("without a file: %v", err)
	}
	for i, row := range [][2]string{{"a\n", "a"}, {"b\r\n", "b"}, {"c", "c"}, {" d \n\n", " d \n"}, {"", ""}} {
		servertest.WriteFile(t, path, []byte(row[0]))
		secret, err := credentials.Secret(file, credentials.Text, logger)
		if err != nil || secret() != row[1] {
			t.Errorf("row %d: %q %v", i, secret(), err)
		}
	}
	servertest.WriteFile(t, path, []byte("first"))
	secret, err := credentials.Secret(file, credentials.Text, logger)
	if err != nil {
		t.Fatal(err)
	}
	servertest.WriteFile(t, path, []byte("other")) // as long, and within the same second
	if got := secret(); got != "other" {
		t.Errorf("it says %q after a change", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := secret() + secret(); got != "otherother" || strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("without its file it says %q, and logs\n%s", got, &log)
	}
	if strings.Contains(log.String(), "first") || strings.Contains(log.String(), "other") {
		t.Errorf("the log has the secret:\n%s", &log)
	}
}

// A client of TLS and a server without it fail at once, and so do the reverse.
func TestOneSideWithoutTLS(t *testing.T) {
	ca := servertest.NewCA(t, "ca")
	redis := servertest.Redis(t)
	w := client(t, credentials.Files{CA: ca.File, Timeout: time.Second})
	if _, err := talk(t.Context(), w, redis.Addr); err == nil || !strings.Contains(err.Error(), "does it speak TLS") {
		t.Errorf("TLS to a server without it: %v", err)
	}
	pair := ca.Issue(t, "127.0.0.1")
	s := serve(t, credentials.Files{Cert: pair.Cert, Key: pair.Key}, slog.New(slog.DiscardHandler))
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(conn) // until the server closes
}
