package grade

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// These scenarios interfere on the wire between one contender and its server. Which command is which the grader does
// not know: it tries each.

// mostCommands is how many commands of an acquire or of a release are tried.
const mostCommands = 4

// A tripwire is a trap for one command.
type tripwire struct {
	*wire.Snare
	command string // set before the snare springs; empty: not a text
}

// trip sets a trap for the k-th command, from 1, that a contender sends from now on.
func (c *contender) trip(k int, do wire.Action) *tripwire {
	kind, _ := c.link.busiest()
	t := new(tripwire)
	protocol := stack.Protocol(kind)
	seen := 0
	t.Snare = c.link[kind].Set(wire.Trap{Do: do, Match: func(m []byte) bool {
		if protocol.Chatter != nil && protocol.Chatter(m, false) {
			return false
		}
		if seen++; seen == k {
			t.command = commandText(kind, m)
			return true
		}
		return false
	}})
	return t
}

// said returns the command for a sentence.
func (t *tripwire) said(k int) words.Text {
	select {
	case <-t.Sprung(): // command is not written any more
		if t.command != "" {
			return say("why.command-is", "k", k, "command", t.command)
		}
	default:
	}
	return say("why.command", "k", k)
}

// A recording has the commands that a contender sends to Redis. It is written by the proxy.
type recording struct {
	mu       sync.Mutex
	commands []string
}

// record records the commands that c sends to Redis from now on.
func (c *contender) record() *recording {
	r := new(recording)
	if proxy := c.link[server.Redis]; proxy != nil {
		proxy.Set(wire.Trap{Do: wire.Hold, Match: func(message []byte) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.commands = append(r.commands, commandText(server.Redis, message))
			return false
		}})
	}
	return r
}

// lastTo returns the last command that names key.
func (r *recording) lastTo(key string) (command string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.commands {
		if strings.Contains(c, key) {
			command = c
		}
	}
	return command
}

// usesServers reports whether the lock of c has sent commands.
func (c *contender) usesServers() bool {
	_, ok := c.link.busiest()
	return ok
}

// noCommands is the verdict on a lock that sends nothing through the grader's proxies.
func noCommands() verdict { return verdict{NotTestable, say("why.no-commands")} }

// crashBetweenCommands kills a holder-to-be between two commands of its acquire, after each of them in turn.
func crashBetweenCommands(b *bed) verdict {
	other := b.contender(spec{name: "B", lease: longLease})
	switch {
	case !other.usesServers():
		return noCommands()
	case other.acquires < 2:
		return verdict{Holds, say("why.one-command")}
	}
	cut := 0
	for k := 2; k <= min(other.acquires, mostCommands); k++ {
		b.stock(2)
		a, key := b.contender(spec{name: fmt.Sprintf("A%d", k-1)}), b.key()
		t := a.trip(k, wire.Hold)
		pending := a.begin(key, b.o.Wait)
		g, sprung := t.await(pending)
		if !sprung {
			t.Release()
			b.must(g.err)
			a.giveBack(g)
			continue // this time it needed fewer commands
		}
		cut++
		b.must(a.process.kill())
		a.link.cut() // what was held back never arrives
		a.note(say("event.killed-before", "who", a.name, "command", t.said(k)))
		<-pending
		bound, _ := b.bound(key)
		in := other.get(key, bound)
		if !in.ok() {
			v := b.blockedBy(key, "why.killed-blocks", bound, in)
			v.why = say("why.between", "command", t.said(k), "what", v.why)
			return v
		}
		other.sell(in)
	}
	if cut == 0 {
		return verdict{Holds, say("why.one-command")}
	}
	return b.outcome(verdict{Holds, say("why.between-holds", "n", cut)})
}

// await waits until the trap springs, or until the grant comes first.
func (t *tripwire) await(pending <-chan grant) (g grant, sprung bool) {
	select {
	case <-t.Sprung():
		return g, true
	case g = <-pending:
	}
	select {
	case <-t.Sprung(): // both
		return g, true
	default:
		return g, false
	}
}

// lostReply breaks the connection instead of a reply, of each command of an acquire in turn. The server has carried the
// command out.
func lostReply(b *bed) verdict {
	other := b.contender(spec{name: "B", lease: longLease})
	if !other.usesServers() {
		return noCommands()
	}
	for k := 1; k <= min(other.acquires, mostCommands); k++ {
		b.stock(2)
		a, key := b.contender(spec{name: fmt.Sprintf("A%d", k)}), b.key()
		t := a.trip(k, wire.CutReply)
		g := a.ask(key, 2*b.o.Lease)
		t.Release()
		var wrong *protocolError
		switch {
		case errors.As(g.err, &wrong):
			b.fail(g.err)
		case errors.Is(g.err, errSilent):
			return verdict{Blocks, say("why.lost-silent", "command", t.said(k), "within", b.o.Grace)}
		case g.ok():
			r := a.read()
			if in := other.get(key, moment); in.ok() {
				other.sell(in)
			}
			a.write(r)
			a.giveBack(g)
			if why, bad := oversold(b.shop.judge()); bad {
				return verdict{Oversells, say("why.lost-reply", "command", t.said(k), "what", why)}
			}
		}
		bound, _ := b.bound(key)
		in := other.get(key, bound)
		if !in.ok() {
			v := b.blockedBy(key, "why.lost-blocks", bound, in)
			v.why = say("why.lost-reply", "command", t.said(k), "what", v.why)
			return v
		}
		other.sell(in)
	}
	return b.outcome(verdict{Holds, say("why.lost-holds")})
}

// releaseInSteps holds back a later command of a release, until the lease has run out and somebody else has the lock.
func releaseInSteps(b *bed) verdict {
	probe := b.contender(spec{name: "B", lease: longLease})
	switch {
	case !probe.usesServers():
		return noCommands()
	case probe.releases < 2:
		return verdict{Holds, say("why.one-command-release")}
	}
	third := b.contender(spec{name: "C", lease: longLease})
	v := verdict{Holds, say("why.one-command-release")}
	for k := 2; k <= min(probe.releases, mostCommands); k++ {
		b.stock(3)
		a, key := b.contender(spec{name: fmt.Sprintf("A%d", k-1)}), b.key()
		held := a.first(key)
		a.write(a.read())
		bound, _ := b.bound(key)
		t := a.trip(k, wire.Hold)
		released := make(chan grant, 1)
		b.owned.Go(func() {
			a.held()
			r, err := a.giveUp(key, held.got.token, bound+2*b.o.Grace)
			released <- grant{got: r, err: err}
		})
		if _, sprung := t.await(released); !sprung {
			t.Release()
			continue
		}
		thaw := a.freeze() // or else a watchdog could renew the lease
		g := probe.get(key, bound)
		if !g.ok() {
			thaw()
			t.Release()
			<-released
			return b.neverExpired(probe, key, g)
		}
		r := probe.read()
		a.note(say("event.late-command", "who", a.name, "command", t.said(k)))
		t.Release()
		thaw()
		<-released
		if v = b.thirdComes(probe, third, g, r, say("why.steps-hold")); v.grade.Failed() {
			v.why = say("why.held-back", "command", t.said(k), "what", v.why)
			return v
		}
	}
	return v
}

// serverRestarted kills the server of the lock and starts it again, with what it has stored.
func serverRestarted(b *bed) verdict {
	a, key := b.contender(spec{name: "A", lease: longLease}), b.key()
	kind, ok := a.link.busiest()
	if !ok {
		return noCommands()
	}
	held := a.first(key)
	r := a.read()
	server := b.servers.Server(string(kind))
	at := time.Now()
	b.must(server.Kill())
	b.must(server.Restart(b.ctx))
	b.timeline.Record(lab.CaseEvent{Lane: string(kind), Kind: lab.Fault, At: at, Until: time.Now()},
		say("event.restarted", "server", string(kind)))
	other := b.contender(spec{name: "B", lease: longLease})
	g := other.get(key, moment)
	if g.ok() {
		other.sell(g)
	}
	// A's lease is long, and the lock may be kept by its session: A gives it back, or dies.
	wrote := a.write(r)
	_, err := a.release(held)
	if err != nil {
		b.must(a.process.kill())
	}
	switch {
	case g.ok() && wrote:
		return b.outcome(verdict{Holds, say("why.late-harmless")})
	case g.ok():
		return b.outcome(verdict{Holds, say("why.fenced", "late", held.got.fence, "current", g.got.fence)})
	}
	other.sell(other.mustGet(key, max(b.o.Wait, longLease+b.o.Lease), "why.released-blocks"))
	return b.outcome(verdict{Holds, say("why.restart-holds", "server", string(kind))})
}
