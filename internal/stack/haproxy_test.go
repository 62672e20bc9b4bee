package stack_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// All connections lead to one node. Another node replaces it only when it is killed, or has lost its cluster.
func TestHAProxyLeadsToOneNode(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := stacktest.Start(t, stack.Options{})
	g, err := s.StartGalera(t.Context(), 3)
	stacktest.Started(t, err)
	proxy, err := s.FrontGalera(t.Context(), g)
	stacktest.Started(t, err)

	kept, err := sql.Open("mysql", proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	session, err := kept.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	awaitNode(t, proxy, g.Nodes[0])
	if err := g.Isolate(t.Context(), g.Nodes[0], true); err != nil {
		t.Fatal(err)
	}
	awaitNode(t, proxy, g.Nodes[1])
	if err := session.PingContext(t.Context()); err == nil {
		t.Error("a connection to the node that lost its cluster is still open")
	}
	if err := g.Isolate(t.Context(), g.Nodes[0], false); err != nil {
		t.Fatal(err)
	}
	awaitNode(t, g.Nodes[0], g.Nodes[0])
	for range 20 { // ten checks of the node, of which two make it available
		awaitNode(t, proxy, g.Nodes[1])
		time.Sleep(250 * time.Millisecond)
	}
	if err := g.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	awaitNode(t, proxy, g.Nodes[0])
}

// awaitNode waits until a new connection to server leads to node, which can then read its tables.
func awaitNode(t *testing.T, server, node *stack.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		addr, err := nodeOf(ctx, server)
		if err == nil && addr == node.Addr {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s leads to %s, %v; want %s", server.Name, addr, err, node.Addr)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func nodeOf(ctx context.Context, server *stack.Server) (addr string, err error) {
	db, err := sql.Open("mysql", server.URL)
	if err != nil {
		return "", err
	}
	defer db.Close()
	// A node without its cluster refuses to read tables.
	err = db.QueryRowContext(ctx, "SELECT CONCAT('127.0.0.1:', @@port) FROM mysql.user LIMIT 1").Scan(&addr)
	return addr, err
}
