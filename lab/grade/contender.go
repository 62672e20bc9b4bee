package grade

import (
	"context"
	"errors"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
)

// A contender is one user of the lock under test. The lock acquires and releases; the contender reads, thinks and
// writes.
type contender struct {
	bed     *bed
	name    string
	locker  locker
	process *process // the locker, in scenarios that need a process
	link    link     // nil: unknown

	acquires, releases int // commands of an acquire and of a release that nobody disturbed
	fence              uint64
	since              time.Time // of the grant
}

// send sends a request to the lock, and returns its reply.
func (c *contender) send(ctx context.Context, r request, within time.Duration) (reply, error) {
	line, err := c.locker.ask(ctx, r, within)
	if err != nil {
		return reply{}, err
	}
	return r.parse(c.locker.said(r), line)
}

// giveUp makes the lock release what it has granted.
func (c *contender) giveUp(key, token string, within time.Duration) (reply, error) {
	return c.send(c.bed.ctx, releasing(key, token), within)
}

// startGrace is how much longer than Options.Grace the first replies may take: a JVM starts, or a program is compiled.
const startGrace = 30 * time.Second

// warm acquires and releases a fresh key twice. The second time it counts the commands: the first may open connections
// and load scripts.
func (c *contender) warm(key string) error {
	for range 2 {
		before := c.link.commands()
		granted, last, err := c.tryFor(c.bed.ctx, key, c.bed.o.Wait, startGrace)
		switch {
		case err != nil:
			return c.explained(err)
		case !granted.ok():
			return phrases.Error("fault.fresh-key", "key", key, "wait", c.bed.o.Wait, "reply", last.String())
		}
		between := c.link.commands()
		// The release may fail: on a busy computer the lease may have run out.
		if _, err := c.giveUp(key, granted.token, c.bed.o.Grace+startGrace); err != nil {
			return c.explained(err)
		}
		c.acquires, c.releases = between-before, c.link.commands()-between
	}
	return nil
}

// explained adds the bound to errSilent.
func (c *contender) explained(err error) error {
	if errors.Is(err, errSilent) {
		return phrases.Error("fault.silent", "within", c.bed.o.Grace)
	}
	return err
}

// retryAfter is the pause after busy and error, so that a lock that does not wait is no busy loop.
const retryAfter = 20 * time.Millisecond

// tryFor asks until the lock is granted or the time is over, at least once. last is the last reply that was no grant. A
// reply may take longer than its wait by Options.Grace and by more.
func (c *contender) tryFor(ctx context.Context, key string, within, more time.Duration) (got, last reply, err error) {
	for end := time.Now().Add(within); ; {
		left := max(0, time.Until(end))
		r, err := c.send(ctx, acquiring(key, left), left+c.bed.o.Grace+more)
		if err != nil || r.ok() {
			return r, last, err
		}
		last = r
		if time.Until(end) < retryAfter {
			return reply{}, last, nil
		}
		timer := time.NewTimer(retryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return reply{}, last, context.Cause(ctx)
		}
	}
}

// A grant is what came of a request for the lock.
type grant struct {
	key  string
	got  reply
	last reply // the last reply that was no grant
	err  error
}

func (g grant) ok() bool { return g.err == nil && g.got.ok() }

// ask asks for the lock until it is granted or the time is over, and records that.
func (c *contender) ask(key string, within time.Duration) grant {
	return c.asked(c.bed.ctx, key, within)
}

func (c *contender) asked(ctx context.Context, key string, within time.Duration) grant {
	c.event(lab.CaseEvent{Kind: lab.Asks, To: "lock"}, say("event.asks", "who", c.name))
	g := grant{key: key}
	g.got, g.last, g.err = c.tryFor(ctx, key, within, 0)
	switch {
	case g.ok():
		c.fence, c.since = g.got.fence, time.Now()
		c.event(lab.CaseEvent{Kind: lab.Gets, To: "lock", Fence: c.fence, At: c.since},
			say("event.gets", "who", c.name))
	case g.err == nil:
		c.event(lab.CaseEvent{Kind: lab.Note},
			say("event.not-granted", "who", c.name, "reply", g.last.String(), "within", within))
	}
	return g
}

// begin asks in a goroutine. The grant comes on the channel.
func (c *contender) begin(key string, within time.Duration) <-chan grant {
	ch := make(chan grant, 1)
	c.bed.owned.Go(func() { ch <- c.ask(key, within) })
	return ch
}

// get is ask for a grant that a healthy lock gives. An error stops the scenario; no grant does not.
func (c *contender) get(key string, within time.Duration) grant {
	g := c.ask(key, within)
	if g.err != nil && !errors.Is(g.err, errSilent) {
		c.bed.fail(c.explained(g.err))
	}
	return g
}

// mustGet is get for a key that must be free by now. Without a grant the lock blocks, and that stops the scenario.
func (c *contender) mustGet(key string, within time.Duration, why string) grant {
	g := c.get(key, within)
	if !g.ok() {
		panic(fault{c.bed.blockedBy(key, why, within, g)})
	}
	return g
}

// first is get for a key that is free. Without a grant there is nothing to test.
func (c *contender) first(key string) grant {
	g := c.get(key, c.bed.o.Wait)
	if g.err != nil {
		c.bed.fail(c.explained(g.err))
	}
	if !g.ok() {
		c.bed.fail(phrases.Error("fault.fresh-key", "key", key, "wait", c.bed.o.Wait, "reply", g.last.String()))
	}
	return g
}

// release gives the lock back, and records what the lock says of it.
func (c *contender) release(g grant) (reply, error) {
	c.event(lab.CaseEvent{Kind: lab.Gives, To: "lock"}, say("event.gives", "who", c.name))
	c.held()
	r, err := c.giveUp(g.key, g.got.token, c.bed.o.Grace)
	if err == nil && !r.ok() {
		c.event(lab.CaseEvent{Kind: lab.Note},
			say("event.release-failed", "who", c.name, "reply", r.String()))
	}
	return r, err
}

// giveBack is release for a contender whose reply no longer matters, unless it breaks the protocol.
func (c *contender) giveBack(g grant) {
	_, err := c.release(g)
	var wrong *protocolError
	if errors.As(err, &wrong) {
		c.bed.fail(err)
	}
}

// held records the hold as its holder saw it, until now.
func (c *contender) held() {
	if c.since.IsZero() {
		return
	}
	c.event(lab.CaseEvent{Kind: lab.Lease, At: c.since, Until: time.Now(), Fence: c.fence},
		say("event.held", "who", c.name))
	c.since = time.Time{}
}

func (c *contender) read() reading {
	r := c.bed.shop.read()
	c.event(lab.CaseEvent{Kind: lab.Read, To: "store", Read: &r.left, Version: r.version},
		say("event.read", "who", c.name, "read", r.left))
	return r
}

// write sells one unit of what was read. It returns false if the store refused the fence.
func (c *contender) write(r reading) bool {
	at := time.Now()
	left := r.left - 1
	if !c.bed.shop.write(c.name, r, c.fence) {
		c.event(lab.CaseEvent{Kind: lab.Refused, To: "store", Fence: c.fence, At: at},
			say("event.refused", "who", c.name))
		return false
	}
	c.event(lab.CaseEvent{
		Kind: lab.Write, To: "store", Read: &r.left, Left: &left, Version: r.version,
		Fence: c.fence, At: at,
	}, say("event.wrote", "who", c.name, "read", r.left, "left", left))
	return true
}

// sell reads, writes and gives the lock back.
func (c *contender) sell(g grant) {
	c.write(c.read())
	c.giveBack(g)
}

// event records an event in the contender's lane.
func (c *contender) event(e lab.CaseEvent, said words.Text) {
	e.Lane, e.Who = c.name, c.name
	c.bed.timeline.Record(e, said)
}

// note records a fault or an observation in the contender's lane.
func (c *contender) note(said words.Text) {
	c.event(lab.CaseEvent{Kind: lab.Note}, said)
}

// kill ends the contender's process and its connections.
func (c *contender) kill() {
	c.bed.must(c.process.kill())
	c.held()
	c.note(say("event.killed", "who", c.name))
}

// freeze suspends the contender's process.
func (c *contender) freeze() (thaw func()) {
	from := time.Now()
	c.bed.must(c.process.freeze())
	return func() {
		c.bed.must(c.process.thaw())
		c.event(lab.CaseEvent{Kind: lab.Fault, At: from, Until: time.Now()},
			say("event.frozen", "who", c.name))
	}
}
