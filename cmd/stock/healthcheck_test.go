package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/stock/internal/stack/stacktest"
)

// A command reaches an address with a certificate of a CA of one's own, which SSL_CERT_FILE names.
func TestACAOfOnesOwn(t *testing.T) {
	t.Parallel()
	ca := stacktest.NewCA(t, "ca")
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
