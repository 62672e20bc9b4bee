// Package outbox sends the events of the order service to a receiver: each at least once, and those of one SKU in the
// order of their numbers. Events of different SKUs have no order. An event has the same name and body in every copy,
// and a copy can come late, so a receiver drops an event whose number it has passed. A gap in the numbers of a SKU
// means that a person has skipped an event.
//
// Two senders are enough, so that one may die: more take events behind those of each other, and four were slower.
package outbox

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"example.com/stock/orders/service"
)

// A Sink delivers an event. It is called concurrently. An error is a refusal of this event, unless it is ErrAway.
type Sink func(ctx context.Context, name string, body []byte) error

// ErrAway: the receiver does not answer, or can take no event now. It says nothing about the event, so an outage parks
// none, however long it lasts.
var ErrAway = errors.New("the receiver is away")

// A Queue has the events that wait. Deliver calls deliver with up to limit of them, which nobody else has then, and
// records what became of each; it returns how many were sent.
type Queue interface {
	Deliver(ctx context.Context, limit int, deliver func([]*service.Delivery)) (sent int, err error)
}

// A Sender sends events. Any number of them may run, in any number of processes, beside one database that is written
// to: the locks of a row do not reach the other nodes of a cluster.
type Sender struct {
	Queue    Queue
	Sink     Sink
	Batch    int           // events that are locked at a time; 0: 200. One that hangs holds up those of its batch
	Parallel int           // deliveries at a time; 0: 32
	Pace     time.Duration // the wait after the first refusal; 0: a second. All other waits are in proportion
}

const (
	attempts = 20               // refusals until an event is parked, about an hour after the first
	recheck  = 60               // times Pace: how often an event behind a parked one is looked at
	hold     = 10 * time.Second // no delivery of a batch begins later
	answer   = 15 * time.Second // the longest delivery. A batch ends in hold + answer
)

// Run sends until ctx ends. Then it finishes the deliveries under way, records them, and returns.
func (s Sender) Run(ctx context.Context) {
	s.Batch, s.Parallel, s.Pace = cmp.Or(s.Batch, 200), cmp.Or(s.Parallel, 32), cmp.Or(s.Pace, time.Second)
	gone := false
	for ctx.Err() == nil {
		var away error
		sent, err := s.Queue.Deliver(context.WithoutCancel(ctx), s.Batch, func(batch []*service.Delivery) {
			away = s.deliver(ctx, batch)
		})
		pause := s.Pace / 20
		switch {
		case err != nil:
			slog.WarnContext(ctx, "outbox: not recorded; what was sent is sent again", "error", err)
			pause = s.Pace
		case sent > 0 && gone:
			slog.InfoContext(ctx, "outbox: the receiver is back")
			gone = false
		case sent == 0 && away != nil && !gone:
			slog.WarnContext(ctx, "outbox: nothing can be sent", "error", away)
			gone = true
		}
		if sent == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(jitter(2 * pause)):
			}
		}
	}
}

// deliver sends the events of each SKU one after the other, and those of several SKUs in parallel. It returns an error
// of a receiver that is away.
func (s Sender) deliver(ctx context.Context, batch []*service.Delivery) error {
	chains := map[string][]*service.Delivery{}
	for _, d := range batch {
		chains[d.SKU] = append(chains[d.SKU], d)
	}
	until, slots, away := time.Now().Add(hold), make(chan struct{}, s.Parallel), make(chan error, len(batch))
	var all sync.WaitGroup
	for _, d := range batch { // those that are due first, first
		chain := chains[d.SKU]
		if chain == nil {
			continue
		}
		delete(chains, d.SKU)
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := s.deliverChain(ctx, until, chain); errors.Is(err, ErrAway) {
				away <- err
			}
		})
	}
	all.Wait()
	close(away)
	return <-away
}

// deliverChain sends events of one SKU until one cannot be sent. Those after it wait as long as that one.
func (s Sender) deliverChain(ctx context.Context, until time.Time, chain []*service.Delivery) error {
	slices.SortFunc(chain, func(a, b *service.Delivery) int { return cmp.Compare(a.Number, b.Number) })
	for i, d := range chain {
		if ctx.Err() != nil || time.Now().After(until) {
			return nil // the rest is still due
		}
		var err error
		if !d.Behind {
			err = s.send(ctx, d)
		}
		if d.Sent {
			continue
		}
		wait := min(d.Wait, recheck*s.Pace)
		if d.Parked {
			wait = recheck * s.Pace
		}
		for _, d := range chain[i:] {
			d.Wait = wait
		}
		return err
	}
	return nil
}

func (s Sender) send(ctx context.Context, d *service.Delivery) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answer)
	defer cancel()
	err := s.Sink(ctx, d.Name(), d.Body)
	if err == nil {
		d.Sent = true
		return nil
	}
	d.Reason, d.Wait = err.Error(), jitter(10*s.Pace)
	if errors.Is(err, ErrAway) {
		return err
	}
	d.Wait = jitter(min(s.Pace<<d.Refusals, 300*s.Pace))
	d.Refusals++
	if d.Refusals >= attempts {
		d.Parked = true
		slog.ErrorContext(ctx, "outbox: an event is parked: retry or skip it", "event", d.Name(), "error", err)
	}
	return err
}

// jitter returns between half of d and d, so that what failed together is not tried together.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
