package handler_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/stock/orders/repo"
)

// TestCommitWithoutAnswer: the connection breaks when COMMIT is sent. The same key settles whether it was written.
func TestCommitWithoutAnswer(t *testing.T) {
	for name, arrives := range map[string]bool{"COMMIT arrives": true, "COMMIT is lost": false} {
		t.Run(name, func(t *testing.T) {
			sku := stocked(t, 1) // the last unit: a retry must not be told that it is sold out
			at := strings.Index(dsn, "127.0.0.1")
			end := strings.Index(dsn, ")")
			p := startProxy(t, dsn[at:end], arrives)
			behind, err := repo.Open(dsn[:at]+p.address+dsn[end:], repo.Options{Connections: 4})
			if err != nil {
				t.Fatal(err)
			}
			defer behind.Close()
			routes, err := routesOf(behind)
			if err != nil {
				t.Fatal(err)
			}
			web := httptest.NewServer(routes)
			defer web.Close()
			key := unique("key")
			p.cut.Store(true)
			first, err := sendTo(web.URL, "POST", "/v1/orders", key, "ann", cart(sku, 1))
			if err != nil || first.body["type"] != "/problems/outcome_unknown" ||
				first.header.Get("Retry-After") == "" {
				t.Fatalf("%d %s %v", first.status, first.text, err)
			}
			again, err := sendTo(web.URL, "POST", "/v1/orders", key, "ann", cart(sku, 1))
			if err != nil || again.status != 201 || (again.header.Get("Idempotent-Replayed") == "true") != arrives {
				t.Fatalf("again: %d %s %s %v", again.status, again.header, again.text, err)
			}
			counts(t, sku, 1, 0, 0, 1)
		})
	}
}

// A proxy cuts the connection of one COMMIT.
type proxy struct {
	address string
	cut     atomic.Bool
	arrives bool // the COMMIT reaches the server, and only its answer is lost
}

func startProxy(t *testing.T, server string, arrives bool) *proxy {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &proxy{address: l.Addr().String(), arrives: arrives}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(client, back) }()
			go p.forward(client, back)
		}
	}()
	return p
}

func (p *proxy) forward(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if bytes.Contains(buf[:n], []byte("\x03COMMIT")) && p.cut.CompareAndSwap(true, false) {
			_ = client.Close()
			if p.arrives {
				_, _ = server.Write(buf[:n])
			}
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}
