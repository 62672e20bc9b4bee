package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/lock/locktest/servertest"
)

// A command reaches an address with a certificate of a CA of one's own, which SSL_CERT_FILE names.
func TestACAOfOnesOwn(t *testing.T) {
	t.Parallel()
	ca := servertest.NewCA(t, "ca")
	files := ca.Issue(t, "127.0.0.1")
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"ready"}`)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()
	for file, want := range map[string]string{ca.File: "", "": "x509"} {
		cmd := exec.CommandContext(t.Context(), pathOf(t, &program), "healthcheck", "--url", server.URL+"/readyz")
		cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+file)
		out, err := cmd.CombinedOutput()
		if (err == nil) != (want == "") || !strings.Contains(string(out), want) {
			t.Errorf("SSL_CERT_FILE=%s: %v\n%s", file, err, out)
		}
	}
}

// Without --url, the instance of this container is asked: at the address of its settings, from wherever they come.
func TestHealthcheckAsksTheAddressOfTheSettings(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/readyz" {
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stock.yaml")
	if err := os.WriteFile(file, []byte("addr: :"+port+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ name, value string }{
		{"STOCK_ADDR", ":" + port},
		{"STOCK_ADDR", "0.0.0.0:" + port},
		{"STOCK_ADDR", "127.0.0.1:" + port},
		{"STOCK_CONFIG", file},
	} {
		t.Run(row.value, func(t *testing.T) {
			t.Setenv(row.name, row.value)
			if _, _, err := run(t.Context(), "healthcheck"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Setenv("STOCK_ADDR", "127.0.0.1:1")
	if _, _, err := run(t.Context(), "healthcheck"); err == nil {
		t.Error("an address where nobody listens is ready")
	}
}
