package grade

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/internal/words"
)

// A crowd is many contenders that want one key.
type crowd struct {
	bed  *bed
	key  string
	all  []*contender
	link link

	inside atomic.Int32 // contenders in the critical section

	mu     sync.Mutex
	most   int // the largest number of contenders in the critical section at once
	served int
	wrong  error // the first error that is no end of the crowd
	last   reply
	grants chan struct{} // one for each contender that was served
	empty  chan struct{} // closed when a contender has read that nothing is left
	once   sync.Once     // for empty
}

// startAtOnce is how many processes start side by side. A hundred at once would starve each other.
const startAtOnce = 8

// crowd starts n contenders, which share one link.
func (b *bed) crowd(n int) *crowd {
	w := &crowd{bed: b, key: b.key(), grants: make(chan struct{}, n), empty: make(chan struct{})}
	if b.o.URL == "" {
		w.link = b.link()
	}
	errs := make([]error, n)
	w.all = make([]*contender, n)
	slots := make(chan struct{}, startAtOnce)
	var all sync.WaitGroup
	for i := range n {
		key := b.key()
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if w.all[i], errs[i] = b.start(spec{fmt.Sprintf("W%d", i+1), longLease, w.link}); errs[i] == nil {
				errs[i] = w.all[i].warm(key)
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		b.must(err)
	}
	return w
}

var errCrowdOver = errors.New("the crowd is over")

// serve lets all contenders ask, and sell when they are served. It returns when all were served, when everything is
// sold, or when nobody was served for Options.Wait. think is the longest time between read and write. ready is called
// when all have begun.
func (w *crowd) serve(think time.Duration, ready func()) {
	ctx, end := context.WithCancelCause(w.bed.ctx)
	defer end(nil)
	var all sync.WaitGroup
	for _, c := range w.all {
		all.Go(func() { w.visit(ctx, c, think) })
	}
	ready()
	timer := time.NewTimer(w.bed.o.Wait)
	defer timer.Stop()
	for waits := len(w.all); waits > 0; {
		select {
		case <-w.grants:
			waits--
			timer.Reset(w.bed.o.Wait)
		case <-timer.C:
			waits = 0
		case <-w.empty:
			waits = 0
		case <-ctx.Done():
			waits = 0
		}
	}
	end(errCrowdOver)
	all.Wait()
	w.bed.must(w.wrong)
	w.bed.must(w.bed.ctx.Err())
}

// visit is what one contender of the crowd does.
func (w *crowd) visit(ctx context.Context, c *contender, think time.Duration) {
	// The wait is longer than the crowd's patience, which starts anew with every grant.
	g := c.asked(ctx, w.key, w.bed.o.Wait+time.Duration(len(w.all))*time.Second)
	if !g.ok() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.last = g.last
		if g.err != nil && !errors.Is(g.err, errCrowdOver) && w.wrong == nil {
			w.wrong = fmt.Errorf("%s: %w", c.name, c.explained(g.err))
		}
		return
	}
	w.enter()
	if r := c.read(); r.left > 0 {
		w.think(think)
		c.write(r)
	} else {
		w.once.Do(func() { close(w.empty) })
	}
	w.inside.Add(-1)
	_, err := c.release(g)
	w.mu.Lock()
	w.served++
	if err != nil && !errors.Is(err, errCrowdOver) && w.wrong == nil {
		w.wrong = fmt.Errorf("%s: %w", c.name, c.explained(err))
	}
	w.mu.Unlock()
	w.grants <- struct{}{}
}

// enter counts one more contender in the critical section.
func (w *crowd) enter() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, int(w.inside.Add(1)))
}

// refusals returns why the store refused writes: several held the lock at once, or else the fences do not grow.
func (w *crowd) refusals() words.Text {
	if w.most > 1 {
		return say("why.held-at-once", "most", w.most, "refused", w.bed.shop.refused)
	}
	return say("why.fences-fall", "refused", w.bed.shop.refused)
}

// think waits for a second contender in the critical section, which a lock keeps out, at most for that time.
func (w *crowd) think(most time.Duration) {
	for end := time.Now().Add(most); w.inside.Load() < 2 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// thirtyAtOnce lets thirty contenders buy ten units.
func thirtyAtOnce(b *bed) verdict {
	const contenders, units = 30, 10
	w := b.crowd(contenders)
	b.stock(units)
	w.serve(100*time.Millisecond, func() {})
	history := b.shop.judge()
	if why, bad := oversold(history); bad {
		return verdict{Oversells, why}
	}
	switch sold := int(history.AcceptedUnits); {
	case b.shop.refused > 0:
		return verdict{Blocks, w.refusals()}
	case sold < units && w.served == 0:
		return verdict{Blocks, say("why.nobody", "n", contenders, "wait", b.o.Wait, "reply", w.last.String())}
	case sold < units:
		return verdict{Blocks, say("why.stuck", "served", w.served, "n", contenders, "wait", b.o.Wait,
			"reply", w.last.String())}
	}
	return verdict{Holds, say("why.sold-out", "n", contenders, "units", units)}
}

// hundredWaiters lets many contenders wait for one holder, and counts who is served and what it costs the servers.
func hundredWaiters(b *bed) verdict {
	n := b.o.Waiters
	holder := b.contender(spec{name: "A", lease: longLease})
	w := b.crowd(n)
	b.stock(int64(n) + 1)
	g := holder.first(w.key)
	before := w.link.commands()
	w.serve(10*time.Millisecond, func() { holder.sell(g) }) // each stays for a moment, so that two at once are seen
	b.commands = w.link.commands() - before
	cost := say("why.cost-unknown")
	if w.link != nil {
		cost = say("why.cost", "commands", b.commands, "sales", w.served)
	}
	if why, bad := oversold(b.shop.judge()); bad {
		return verdict{Oversells, why}
	}
	switch {
	case b.shop.refused > 0:
		return verdict{Blocks, w.refusals()}
	case w.served == 0:
		return verdict{Blocks, say("why.nobody", "n", n, "wait", b.o.Wait, "reply", w.last.String())}
	case w.served < n:
		return verdict{Starves, say("why.starved", "served", w.served, "n", n, "wait", b.o.Wait, "cost", cost)}
	}
	return verdict{Holds, say("why.all-served", "n", n, "cost", cost)}
}
