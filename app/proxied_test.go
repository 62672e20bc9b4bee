package app

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
)

// A switchboard is a TCP proxy that leads new connections to another server when it is told so, and keeps the old ones.
type switchboard struct {
	addr string
	to   atomic.Pointer[string]
}

func newSwitchboard(t *testing.T, to string) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &switchboard{addr: listener.Addr().String()}
	b.to.Store(&to)
	var links sync.WaitGroup
	links.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", *b.to.Load())
			if err != nil {
				in.Close()
				continue
			}
			copied := func(to, from net.Conn) { _, _ = io.Copy(to, from); to.Close(); from.Close() }
			links.Go(func() { copied(out, in) })
			links.Go(func() { copied(in, out) })
		}
	})
	t.Cleanup(func() { listener.Close(); links.Wait() })
	return b
}

// Behind a proxy whose connections outlive a fail-over, an instance is told by each of them that its server is
// read-only now. It closes them, and the new ones lead to the server that has taken over.
func oldMasterBehindAProxy(t *testing.T, lone *breakable) {
	const db = 7 // of both, so that the shared server keeps its own data
	old, next := lone.redis.Addr, servers.Redis(t).Addr
	at := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: addr, DB: db})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	proxy := newSwitchboard(t, old)
	i := begin(t, backends(fmt.Sprintf("--redis-url=redis://%s?db=%d", proxy.addr, db), "--redis-timeout=5s",
		"--store=redis")...)
	i.findsBack(t, func() {
		from, to := at(old), at(next)
		follow(t, old, "127.0.0.1:1")
		for _, key := range from.Keys(t.Context(), "stock:*").Val() {
			if err := to.RestoreReplace(t.Context(), key, 0, from.Dump(t.Context(), key).Val()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		proxy.to.Store(&next)
	})
	follow(t, old, "")
}

// follow makes a Redis a replica of master, or with "" a master.
func follow(t *testing.T, addr, master string) {
	t.Helper()
	host, port := "NO", "ONE"
	if master != "" {
		host, port, _ = net.SplitHostPort(master)
	}
	c := redis.NewClient(&redis.Options{Addr: addr})
	defer c.Close()
	if err := c.ReplicaOf(t.Context(), host, port).Err(); err != nil {
		t.Fatal(err)
	}
}

// findsBack wants an instance to sell over many connections at once, and to do so again some time after failOver.
func (i *instance) findsBack(t *testing.T, failOver func()) {
	t.Helper()
	const sku, atOnce = "proxied", 20
	i.becomes(t, http.StatusOK, `"ready"`)
	i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=100000", 200)
	all := func() (sold int, other string) {
		var mu sync.Mutex
		var buyers sync.WaitGroup
		for range atOnce {
			buyers.Go(func() {
				r := i.buy(sku)
				mu.Lock()
				defer mu.Unlock()
				if r.status/100 == 2 {
					sold++
				} else {
					other = fmt.Sprint(r.status, r.body)
				}
			})
		}
		buyers.Wait()
		return sold, other
	}
	if sold, other := all(); sold < atOnce {
		t.Fatalf("when all is well, %d of %d are sold: %s", sold, atOnce, other)
	}
	failOver()
	servertest.Eventually(t, time.Minute, "everything is sold again", func() (bool, string) {
		sold, other := all()
		return sold == atOnce, other
	})
	i.becomes(t, http.StatusOK, `"ready"`)
}
