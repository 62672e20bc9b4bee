package repo_test

import (
	"testing"

	"example.com/stock/stack/wire"
)

// A proxy stands between a store and its server and breaks what it is told to.
type proxy struct{ *wire.Proxy }

func newProxy(t testing.TB, server string, p wire.Protocol) proxy {
	t.Helper()
	listening, err := wire.Listen(server, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Close() })
	return proxy{listening}
}

// once makes the proxy do that to the next request that contains word.
func (p proxy) once(do wire.Action, word string) {
	p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(word), Do: do})
}

// count is how many requests went through during op. Clients here send one only when they have the answer to the last.
func (p proxy) count(op func()) int {
	before := p.Count(wire.ToServer)
	op()
	return p.Count(wire.ToServer) - before
}
