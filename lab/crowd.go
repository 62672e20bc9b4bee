package lab

import (
	"fmt"
	"time"

	"example.com/stock/loadtest"
)

// A Crowd is customers who ask one instance for a unit each at the same time. In the evidence and in the timeline they
// are told of together.
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
	b.record(CaseEvent{At: sent, Lane: app.Name, Kind: Sent, Who: who}, say("says.crowd-asks", "n", n, "app", app.Name))
	b.crowds = append(b.crowds, c)
	return c
}

// MergeQueue returns the environment variable for Apps that lets n sales of a SKU wait for their batch. See Gather.
func MergeQueue(n int) string { return fmt.Sprintf("STOCK_MERGE_QUEUE=%d", n) }

// Gather returns a crowd of n customers who wait for their batch in an instance that was started with MergeQueue(n). A
// batch of the SKU must be under way there, which cannot end meanwhile.
//
// That they wait needs no clock: one more than the queue holds is sent, and who finds the queue full is turned away at
// once. That one is not of the crowd.
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

// Count waits for the replies, and returns how many of them are of each sort: the outcome, or the problem if there is
// one.
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
		c.b.record(e, say("says.crowd-answered", "n", n))
	}
	return sorts
}

func sortOf(r loadtest.Reply) string {
	if r.Problem != "" {
		return r.Problem
	}
	return string(r.Outcome)
}

// Settle makes final for each customer of a crowd without a known outcome whether its order was written, and returns
// how many were and how many never will be.
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

// writeDown records what a crowd was told, each sort of answer once.
func (c *Crowd) writeDown() {
	type sort struct {
		n           int
		first       loadtest.Reply
		most, least int64 // of accepted replies: the largest that was read, the smallest that was left
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
