package scenario

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// nodes has the five independent masters of Redlock, with a client for each.
type nodes struct {
	b       *lab.Testbed
	servers []*server.Server
	clients []*redis.Client
	proxies []*wire.Proxy // see behindProxies
	key     string        // of the case's lock
}

func newNodes(b *lab.Testbed) *nodes {
	n := &nodes{b: b, key: "redlock:{" + b.SKU + "}"}
	for i := 2; i <= 6; i++ {
		server := b.Server(lab.Need(fmt.Sprintf("%s-%d", server.Redis, i)))
		n.servers = append(n.servers, server)
		n.clients = append(n.clients, b.RedisAt(server.Addr))
	}
	return n
}

// name returns the name of a node in the timeline and the evidence.
func (n *nodes) name(i int) string { return fmt.Sprintf("node %d", i+1) }

// block sets another client's key on some nodes, so that they do not grant the lock. unblock removes it.
func (n *nodes) block(at ...int) (unblock func()) {
	for _, i := range at {
		n.b.Must("SET", n.clients[i].Set(n.b.Ctx, n.key, "stranger", longLease).Err())
		n.b.Note(n.name(i), "stranger-has-the-key")
	}
	return func() {
		for _, i := range at {
			n.b.Must("DEL", n.clients[i].Del(n.b.Ctx, n.key).Err())
			n.b.Note(n.name(i), "stranger-is-gone")
		}
	}
}

// jump sets the wall clock of a node forward, and waits until the key has expired.
func (n *nodes) jump(i int, ahead time.Duration) {
	jumpClock(n.b, n.name(i), n.servers[i], ahead)
	n.b.Eventually("the key has expired", func() bool { return n.clients[i].Exists(n.b.Ctx, n.key).Val() == 0 })
}

// jumpClock sets the wall clock of a Redis forward. The server must have been started with a clock of its own.
func jumpClock(b *lab.Testbed, name string, server *server.Server, ahead time.Duration) {
	b.Must("set the clock of "+name, server.SetClock(ahead))
	b.Note(name, "clock-jumps", "ahead", ahead)
}

// restart kills a node and starts it again with the data on its disk.
func (n *nodes) restart(i int) {
	from := time.Now()
	n.b.Must("kill "+n.name(i), n.servers[i].Kill())
	n.b.Must("restart "+n.name(i), n.servers[i].Restart(n.b.Ctx))
	n.b.Interval(n.name(i), lab.Fault, "", from, "restarted", "server", n.name(i))
}

// kill kills a node until the case ends.
func (n *nodes) kill(i int) {
	n.b.Must("kill "+n.name(i), n.servers[i].Kill())
	n.b.Defer(func() { _ = n.servers[i].Restart(n.b.Ctx) })
	n.b.Note(n.name(i), "node-is-killed")
}

// holders records whose value the key has on each node: together as evidence, and each in the lane of its node.
func (n *nodes) holders(key string) {
	var seen []string
	values := make(map[string]string)
	for i, c := range n.clients {
		if n.servers[i].Pid() == 0 {
			seen = append(seen, fmt.Sprintf("%d: ×", i+1)) // the node is down
			continue
		}
		value, err := c.Get(n.b.Ctx, n.key).Result()
		if errors.Is(err, redis.Nil) {
			seen = append(seen, "–")
			n.b.Statement(n.name(i), "", "GET: nil")
			continue
		}
		n.b.Must("GET", err)
		if values[value] == "" {
			values[value] = fmt.Sprintf("value %d", len(values)+1)
		}
		seen = append(seen, fmt.Sprintf("%d: %s", i+1, values[value]))
		n.b.Statement(n.name(i), "", "GET: "+values[value])
	}
	n.b.Evidence(lab.Served, seen, key, "values", strings.Join(seen, ", "))
}

// behindProxies opens a proxy before each of the five nodes. env makes an instance use them.
func (n *nodes) behindProxies() (env string) {
	var urls []string
	for _, server := range n.servers {
		p := n.b.ProxyTo(server.Addr, wire.Redis())
		n.proxies, urls = append(n.proxies, p), append(urls, "redis://"+p.Addr())
	}
	return "STOCK_REDLOCK_URLS=" + strings.Join(urls, ",")
}

// trap sets a trap before each of the nodes 3, 4 and 5, for the next request for the key. sprung waits for them.
func (n *nodes) trap(do wire.Action, key string) (snares []*wire.Snare, sprung func()) {
	for _, p := range n.proxies[2:] {
		snares = append(snares, n.b.Trap(p, wire.Trap{On: wire.ToServer, Do: do, Match: wire.Contains(n.key)}))
	}
	return snares, func() {
		for i, s := range snares {
			n.b.Sprung(s, key, "node", n.name(i+2))
		}
	}
}

// A naiveRedlock is Redlock as it is often written: it counts the nodes that granted the key, and does not check how
// long that took.
type naiveRedlock struct {
	clients    []*redis.Client
	key, token string
	ttl        time.Duration
}

func newNaiveRedlock(n *nodes, ttl time.Duration) *naiveRedlock {
	return &naiveRedlock{n.clients, n.key, uuid.NewString(), ttl}
}

// newNaiveRedlockBehindProxies returns one that reaches the nodes through the proxies.
func newNaiveRedlockBehindProxies(n *nodes, ttl time.Duration) *naiveRedlock {
	l := newNaiveRedlock(n, ttl)
	l.clients = nil
	for _, p := range n.proxies {
		l.clients = append(l.clients, n.b.RedisAt(p.Addr()))
	}
	return l
}

// try sets the key on all nodes at once, and reports whether a majority granted it.
func (l *naiveRedlock) try(ctx context.Context) (bool, error) {
	yes, err := l.all(func(c *redis.Client) (bool, error) { return c.SetNX(ctx, l.key, l.token, l.ttl).Result() })
	return yes > len(l.clients)/2, err
}

// release deletes the key on the nodes that have it with our value, and returns how many those were.
func (l *naiveRedlock) release(ctx context.Context) (nodes int, err error) {
	return l.all(func(c *redis.Client) (bool, error) {
		return c.Eval(ctx, compareAndDelete, []string{l.key}, l.token).Bool()
	})
}

// all asks all nodes at once. It returns how many granted, and an error if some did not answer.
func (l *naiveRedlock) all(ask func(*redis.Client) (bool, error)) (yes int, err error) {
	answers := make(chan error, len(l.clients))
	for _, c := range l.clients {
		go func() {
			ok, err := ask(c)
			if err == nil && !ok {
				err = redis.Nil
			}
			answers <- err
		}()
	}
	for range l.clients {
		switch answer := <-answers; {
		case answer == nil:
			yes++
		case !errors.Is(answer, redis.Nil):
			err = answer
		}
	}
	return yes, err
}
