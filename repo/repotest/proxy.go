package repotest

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
)

// A Proxy is between a store and its server, and breaks requests on demand.
type Proxy struct{ *wire.Proxy }

// NewProxy puts a proxy in front of a server.
func NewProxy(t testing.TB, server string, p wire.Protocol) Proxy {
	t.Helper()
	listening, err := wire.Listen(server, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Close() })
	return Proxy{listening}
}

// Once applies do to the next request that contains word.
func (p Proxy) Once(do wire.Action, word string) {
	p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(word), Do: do})
}

// Meeting returns a ctx for one operation that meets a fault. It ends soon only if nothing else ends the operation: a
// busy computer may take long until it meets the fault.
func Meeting(t testing.TB, fault wire.Action) (context.Context, context.CancelFunc) {
	if fault == wire.Hold || fault == wire.HoldReply {
		return ContextOf(t, 2*time.Second)
	}
	return ContextOf(t, Patience)
}

// Trips returns the number of requests during op. Clients here wait for each reply before they send the next request.
func (p Proxy) Trips(op func()) int {
	before := p.Count(wire.ToServer)
	op()
	return p.Count(wire.ToServer) - before
}

// Proxied returns two [repo.Redis] or [repo.MySQL]: broken goes through the proxy, sound does not.
func Proxied(t testing.TB, name string) (p Proxy, broken, sound any) {
	t.Helper()
	if name == "redis" {
		addr := Servers.Redis(t).Addr
		p = NewProxy(t, addr, wire.Redis())
		// The client has go-redis' default of three retries, which must make no difference.
		return p, repo.NewRedis(DialRedis(t, p.Addr())), repo.NewRedis(DialRedis(t, addr))
	}
	dsn := SharedMySQL(t)
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	p = NewProxy(t, addr, wire.MySQL())
	through := OpenMySQL(t, strings.Replace(dsn, addr, p.Addr(), 1))
	return p, repo.NewMySQL(through), repo.NewMySQL(OpenMySQL(t, dsn))
}

// TripsOf checks that op takes n round trips, unless warm is false.
func TripsOf(t *testing.T, p Proxy, warm bool, what string, n int, op func() error) {
	t.Helper()
	var err error
	got := p.Trips(func() { err = op() })
	if err != nil || warm && got != n {
		t.Errorf("%s: %d round trips, want %d; %v", what, got, n, err)
	}
}
