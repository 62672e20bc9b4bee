package lab

import (
	"fmt"
	"time"

	"example.com/stock/loadtest"
)

// A Crowd is a number of customers who each ask one instance for a unit at the same time. Evidence and timeline record
// them together.
type Crowd struct {
	Calls []*Call

	b   *Testbed
	app *App
	who string
}

// BeginCrowd sends n requests of a crowd to an instance, and does not wait for the replies. Its customers are called
// who1, who2 and so on.
func (b *Testbed) BeginCrowd(app *App, who string, n int, r Request) *Crowd {
	c := &Crowd{b: b, app: app, who: who}
	r.crowd = c
	b.unwatch()
	sent := time.Now()
	for i := range n {
		c.Calls = append(c.Calls, b.Begin(app, fmt.Sprint(who, i+1), r))
	}
	b.timeline.Record(CaseEvent{At: sent, Lane: app.Name, Kind: Sent, Who: who},
		say("says.crowd-asks", "n", n, "app", app.Name))
	b.crowds = append(b.crowds, c)
	return c
}

// MergeQueue returns the environment variable for Apps that limits the queue for a batch to n sales of a SKU. See
// Gather.
func MergeQueue(n int) string { return fmt.Sprintf("STOCK_MERGE_QUEUE=%d", n) }

// Gather returns a crowd of n customers who wait for their batch in an instance that was started with MergeQueue(n). A
// batch of the SKU must be in progress there, and must not end meanwhile.
//
// Gather needs no clock to see that they wait: it sends n+1 requests, of which one is refused at once because the queue
// is full. The refused one is not part of the crowd.
func (b *Testbed) Gather(app *App, who string, n int) *Crowd {
	c := b.BeginCrowd(app, who, n+1, Request{Wait: For(Patience)})
	full := -1
	b.Eventually("the queue for the batch is full", func() bool {
		for i, call := range c.Calls {
			if call.Answered() {
				full = i
			}
		}
		return full >= 0
	})
	away := c.Calls[full]
	if away.Reply().Problem != "overloaded" {
		b.Fatalf("%s was to be turned away, and was told %s", away.Who, Told(away.record.Reply))
	}
	c.Calls = append(c.Calls[:full:full], c.Calls[full+1:]...)
	said := say("says.crowd-waits", "n", n, "app", app.Name, "answer", Told(away.record.Reply))
	b.prove(Answer, n, said)
	b.note(app.Name, said)
	return c
}

// Count waits for the replies, and counts them by problem, or by outcome if they have no problem.
func (c *Crowd) Count() map[string]int {
	sorts := make(map[string]int)
	for _, call := range c.Calls {
		sorts[sortOf(call.Reply())]++
	}
	if n := len(c.Calls); n > 0 {
		last := c.Calls[0].record.DoneAt
		for _, call := range c.Calls {
			if call.record.DoneAt.After(last) {
				last = call.record.DoneAt
			}
		}
		e := CaseEvent{At: last, Lane: c.app.Name, Kind: Answered, Who: c.who}
		c.b.timeline.Record(e, say("says.crowd-answered", "n", n))
	}
	return sorts
}

func sortOf(r loadtest.Reply) string {
	if r.Problem != "" {
		return r.Problem
	}
	return string(r.Outcome)
}

// Settle settles the orders of the crowd with an unknown outcome, and returns how many were found and how many are
// absent for good.
func (c *Crowd) Settle() (found, absent int) {
	for _, call := range c.Calls {
		if call.settle() == isWritten {
			found++
		} else {
			absent++
		}
	}
	said := say("says.crowd-settled", "n", len(c.Calls), "app", c.app.Name, "written", found, "absent", absent)
	c.b.prove(Answer, map[string]int{"written": found, "absent": absent}, said)
	c.b.note(c.app.Name, said)
	return found, absent
}

// writeDown records the crowd's replies, each kind once.
func (c *Crowd) writeDown() {
	type sort struct {
		n           int
		first       loadtest.Reply
		most, least int64 // of accepted replies: the largest Read, the smallest Remaining
	}
	var order []string
	sorts := make(map[string]*sort)
	for _, call := range c.Calls {
		reply := call.record.Reply
		name := sortOf(reply)
		s := sorts[name]
		if s == nil {
			s = &sort{first: reply}
			sorts[name], order = s, append(order, name)
			if reply.Receipt != nil {
				s.most, s.least = reply.Read, reply.Remaining
			}
		}
		if s.n++; reply.Receipt != nil {
			s.most, s.least = max(s.most, reply.Read), min(s.least, reply.Remaining)
		}
	}
	for _, name := range order {
		s := sorts[name]
		answer := Told(s.first)
		if s.first.Receipt != nil {
			answer = say("says.crowd-sold", "read", s.most, "left", s.least)
		}
		c.b.prove(Answer, s.n, say("says.crowd-answer", "n", s.n, "app", c.app.Name, "answer", answer))
	}
}
