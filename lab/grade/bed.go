package grade

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// A bed gives a scenario its contenders, its store, and a record of events. Methods that return no error stop the
// scenario when the lock breaks the protocol or the grader fails; they are for the goroutine that runs the scenario.
type bed struct {
	ctx      context.Context
	o        *Options
	servers  *server.Stack
	scenario Scenario
	mark     string // an environment variable of every process of the scenario
	shop     *shop
	commands int

	links    []stack.Link
	owned    sync.WaitGroup
	keys     int
	remote   *remote // nil without Options.URL
	timeline *lab.Timeline

	mu         sync.Mutex
	contenders []*contender
}

// A verdict is what a scenario found.
type verdict struct {
	grade Grade
	why   words.Text
}

// A fault stops a scenario, with a verdict.
type fault struct{ verdict }

func (b *bed) fail(err error) {
	if errors.Is(err, errSilent) {
		panic(fault{verdict{Ungraded, say("fault.silent", "within", b.o.Grace)}})
	}
	panic(fault{verdict{Ungraded, words.Of(err)}})
}

func (b *bed) must(err error) {
	if err != nil {
		b.fail(err)
	}
}

// run runs the scenario and turns a fault into a verdict.
func (b *bed) run() (v verdict) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case fault:
			v = r.verdict
		default:
			panic(r)
		}
	}()
	if b.o.URL != "" && b.scenario.ofProcess {
		return verdict{NotTestable, say("why.needs-a-process")}
	}
	return b.scenario.run(b)
}

// cleanup kills every process of the scenario, also those that have left their group, and ends its goroutines.
func (b *bed) cleanup() {
	var all sync.WaitGroup
	for _, c := range b.contenders {
		if c.locker != b.remote {
			all.Go(func() { _ = c.locker.close() }) // errors concern processes that are gone
		}
	}
	all.Wait()
	killStrays(b.mark)
	if b.remote != nil {
		_ = b.remote.close()
	}
	for _, l := range b.links {
		_ = l.Close()
	}
	b.owned.Wait()
}

// stock sets the stock. A scenario that does not call it has two units.
func (b *bed) stock(units int64) {
	b.shop = newShop(units)
	b.timeline = new(lab.Timeline)
	b.timeline.Record(lab.CaseEvent{Lane: "store", Kind: lab.Note, Left: &units}, say("event.in-stock", "units", units))
}

// key returns a key that nobody has used.
func (b *bed) key() string {
	b.keys++
	return fmt.Sprintf("%s-%d", b.scenario.Name, b.keys)
}

// link opens a link of its own.
func (b *bed) link() link {
	l, err := stack.OpenLink(b.servers)
	b.must(err)
	b.links = append(b.links, l)
	return link(l)
}

// A spec says how to start a contender.
type spec struct {
	name  string
	lease time.Duration // 0: Options.Lease
	over  link          // nil: a link of its own
}

// longLease is the lease of contenders whose lease must not expire.
const longLease = 30 * time.Second

// contender starts a contender, and lets it acquire and release a key of its own, so that it has its connections.
func (b *bed) contender(s spec) *contender {
	c, err := b.start(s)
	b.must(err)
	b.must(c.warm(b.key()))
	return c
}

func (b *bed) start(s spec) (*contender, error) {
	c := &contender{bed: b, name: s.name, link: s.over}
	if b.o.URL != "" {
		c.locker = b.remote
	} else {
		if c.link == nil {
			c.link = b.link()
		}
		p, err := startProcess(b.o.Command, c.link.env(cmp.Or(s.lease, b.o.Lease), b.mark))
		if err != nil {
			return nil, phrases.Error("fault.start", "why", err)
		}
		c.locker, c.process = p, p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contenders = append(b.contenders, c)
	return c, nil
}

// bound returns how long to wait for what must happen once the lease of key has run out, and what Redis says is left of
// the lease. A lease that is too long to wait for stops the scenario.
func (b *bed) bound(key string) (d, left time.Duration) {
	left, _, err := redisLease(b.ctx, b.servers, key)
	b.must(err)
	const most = 30 * time.Second
	if left > most {
		panic(fault{verdict{NotTestable, say("why.lease-too-long", "left", left.Round(time.Millisecond))}})
	}
	return max(b.o.Wait, 2*left), left
}

// fewContenders is the largest number of contenders that are all drawn.
const fewContenders = 6

// drawn returns the events, oldest first. Of a crowd it returns those of two contenders that sold the same unit.
func (b *bed) drawn(v loadtest.Verdict) []lab.CaseEvent {
	events := b.timeline.Events()
	if len(b.contenders) > fewContenders {
		var pair []string
		if len(v.Certificates) > 0 {
			pair = []string{v.Certificates[0].Orders[0].RequestID, v.Certificates[0].Orders[1].RequestID}
		}
		events = slices.DeleteFunc(events, func(e lab.CaseEvent) bool {
			return e.Who != "" && !slices.Contains(pair, e.Who)
		})
	}
	return events
}
