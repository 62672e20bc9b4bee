// Package gate is the bounded queue in front of a server: so many operations are in it at a time, so many wait for
// their turn, and others are refused before anything was done.
//
// A pool of connections alone is an unbounded queue without fairness: under overload everybody waits until their time
// is over, and nobody is told the reason. See docs/adr/0014-back-pressure.md.
package gate

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
)

// Limits bound a Gate.
type Limits struct {
	In      int // operations in the server at a time; at least 1
	PerKey  int // of them with the same key, so that one key cannot keep all others out; 0: In
	Waiting int // operations that wait for their turn at most; 0: any number
}

// A Gate lets operations into a server. Those with the same key come first in, first out; keys take turns, so that one
// with a thousand waiters does not hold up another with one. A key that nobody uses costs nothing. It is safe for
// concurrent use, and every operation on it, giving up included, is O(1). A nil Gate lets everybody in.
type Gate struct {
	limits Limits

	mu      sync.Mutex
	in      int
	waiting int
	lines   map[string]*line // by key: those with an operation that is in or waits
	ready   list.List        // of *line, in turns: somebody waits, and the key has room. Empty unless the gate is full
}

// A line is the operations of one key.
type line struct {
	key     string
	in      int
	waiters list.List     // of chan struct{}, closed when the turn has come; oldest first
	ready   *list.Element // in Gate.ready; nil: not there

	// How quick it goes: done operations since then, which is when the line was empty, or about as long ago as the
	// latest took.
	since time.Time
	done  int
}

// window is after how many operations a line forgets half of what it knows of its speed.
const window = 64

// New makes a Gate.
func New(l Limits) *Gate {
	l.In = max(l.In, 1)
	if l.PerKey <= 0 || l.PerKey > l.In {
		l.PerKey = l.In
	}
	return &Gate{limits: l, lines: make(map[string]*line)}
}

// A Request says who asks to be let in.
type Request struct {
	Key string
	// Wait ends the wait for the turn together with ctx; nil: ctx alone does.
	Wait context.Context
	// Until is when it gives up; zero: when ctx ends. Where the gate bounds those who wait, it refuses at once who
	// would not have their turn by then at the speed of the latest operations.
	Until time.Time
	// Begun is of work that is under way already and keeps others waiting, such as a write by the holder of a lock. It
	// waits for its turn like others, but is not refused because there is no room to wait, and does not leave when its
	// client does.
	Begun bool
}

// A RefusedError is a lock.ErrOverloaded: the operation was not let in, and nothing was done.
type RefusedError struct {
	// KeyBusy: it was its own key that had no room, not the gate.
	KeyBusy bool
	reason  string
}

func (e *RefusedError) Error() string { return "overloaded: " + e.reason }

// Is makes a RefusedError match lock.ErrOverloaded.
func (e *RefusedError) Is(target error) bool { return target == lock.ErrOverloaded }

// Enter waits for the turn until ctx ends, or what else bounds the wait does. Whoever was let in calls leave once.
//
// Errors: a RefusedError if there was no room to wait, or the time was over before the turn came; otherwise the cause
// of ctx's end.
func (g *Gate) Enter(ctx context.Context, t Request) (leave func(), err error) {
	if g == nil {
		return func() {}, nil
	}
	wait := ctx
	if !t.Begun && t.Wait != nil {
		wait = t.Wait
	}
	l, place, err := g.join(t)
	if err != nil {
		return nil, err
	}
	leave = func() { g.leave(l) }
	if place == nil {
		return leave, nil
	}
	var over <-chan time.Time
	if !t.Until.IsZero() {
		timer := time.NewTimer(time.Until(t.Until))
		defer timer.Stop()
		over = timer.C
	}
	cause := context.DeadlineExceeded
	select {
	case <-place.Value.(chan struct{}):
		return leave, nil
	case <-over:
	case <-ctx.Done():
		cause = context.Cause(ctx)
	case <-wait.Done():
		cause = context.Cause(wait)
	}
	keyBusy, gone := g.abandon(l, place)
	if !gone {
		return leave, nil // the turn came at the same moment, and what comes next looks at ctx itself
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return nil, &RefusedError{KeyBusy: keyBusy, reason: "the turn did not come in time"}
	}
	return nil, fmt.Errorf("wait for a turn: %w", cause)
}

// join lets the operation in, with no place, or gives it a place in its line.
func (g *Gate) join(t Request) (*line, *list.Element, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[t.Key]
	if l == nil {
		l = &line{key: t.Key, since: time.Now()}
		g.lines[t.Key] = l
	}
	if g.in < g.limits.In && l.in < g.limits.PerKey { // then nobody of this key waits, see pass
		g.in++
		l.in++
		return l, nil, nil
	}
	if g.limits.Waiting > 0 && !t.Begun {
		reason := ""
		switch {
		case g.waiting >= g.limits.Waiting:
			reason = "the queue is full"
		case l.waiters.Len() > 0 && !t.Until.IsZero() && l.expected() > time.Until(t.Until):
			reason = "the queue is too slow"
		}
		if reason != "" {
			busy := l.in >= g.limits.PerKey
			g.tidy(l)
			return nil, nil, &RefusedError{KeyBusy: busy, reason: reason}
		}
	}
	g.waiting++
	place := l.waiters.PushBack(make(chan struct{}))
	g.line(l)
	return l, place, nil
}

// expected is how long the last of the line will wait, at the speed of the latest operations; 0 if none has ended yet.
func (l *line) expected() time.Duration {
	if l.done == 0 {
		return 0
	}
	return time.Since(l.since) / time.Duration(l.done) * time.Duration(l.waiters.Len())
}

func (g *Gate) leave(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.in--
	l.in--
	if l.done++; l.done == window {
		l.since = l.since.Add(time.Since(l.since) / 2)
		l.done /= 2
	}
	g.line(l)
	g.tidy(l)
	g.pass()
}

// line puts l where turns are taken, if somebody of it waits and may be let in.
func (g *Gate) line(l *line) {
	if l.ready == nil && l.waiters.Len() > 0 && l.in < g.limits.PerKey {
		l.ready = g.ready.PushBack(l)
	}
}

// pass gives turns while there is room. After it there is none, or nobody waits who may come in.
func (g *Gate) pass() {
	for g.in < g.limits.In && g.ready.Len() > 0 {
		l := g.ready.Remove(g.ready.Front()).(*line)
		l.ready = nil
		turn := l.waiters.Remove(l.waiters.Front()).(chan struct{})
		g.waiting--
		g.in++
		l.in++
		close(turn)
		g.line(l)
	}
}

// abandon gives up a place; gone is false if the turn had come already.
func (g *Gate) abandon(l *line, place *list.Element) (keyBusy, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-place.Value.(chan struct{}):
		return false, false
	default:
	}
	l.waiters.Remove(place)
	g.waiting--
	if l.ready != nil && l.waiters.Len() == 0 {
		g.ready.Remove(l.ready)
		l.ready = nil
	}
	g.tidy(l)
	return l.in >= g.limits.PerKey, true
}

// tidy forgets a line that nobody is in or waits in.
func (g *Gate) tidy(l *line) {
	if l.in == 0 && l.waiters.Len() == 0 {
		delete(g.lines, l.key)
	}
}

// Busy tells whether an operation with this key would have to wait for others with the same key.
func (g *Gate) Busy(key string) bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.lines[key]
	return l != nil && l.in >= g.limits.PerKey
}

// Load is how many operations are in, and how many wait.
func (g *Gate) Load() (in, waiting int) {
	if g == nil {
		return 0, 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.in, g.waiting
}
