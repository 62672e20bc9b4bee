package service

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/stock/lock"
)

// Lab holds what lab mode may ask of one sale. The zero value is normal service.
type Lab struct {
	Hold       time.Duration // stay this long between read and write
	Unfenced   bool          // do not give the fence to the write
	IgnoreLoss bool          // work on after the lease is lost, as naive code does
	Pause      Points        // wait at these until let go
	Nested     Nesting       // ask for the lock again inside the critical section
}

// MaxPause is the longest pause at one point. Whoever forgot to let a sale go finds it gone, and is told so.
const MaxPause = time.Minute

// Points are places in a sale where lab mode can make it wait until it is let go: that forces an interleaving which
// would otherwise be luck. Not every way has them all: an atomic write has nothing between its read and its write.
type Points uint8

// The points, in the order of a sale.
const (
	BeforeLock  Points = 1 << iota // nobody was asked yet, and the wait for the lock has not begun
	AfterLock                      // in the critical section, with nothing read; none where the read takes the lock
	AfterRead                      // what was read is in hand
	BeforeWrite                    // after the thinking
	AfterWrite                     // the order is in the store, or in the open transaction, and the lock is held
	AfterUnlock                    // the lock was given back, and the reply not sent
)

func pointNames() []string {
	return []string{"before_lock", "after_lock", "after_read", "before_write", "after_write", "after_unlock"}
}

// ParsePoints reads names with commas between them. The error is an InvalidError for the field "pause".
func ParsePoints(text string) (Points, error) {
	var p Points
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(pointNames(), name)
		if i < 0 {
			return 0, Invalid("pause", "points", "list", strings.Join(pointNames(), ","))
		}
		p |= 1 << i
	}
	return p, nil
}

func (p Points) String() string {
	var names []string
	for i, name := range pointNames() {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// A Pause is a sale that waits at a point.
type Pause struct {
	RequestID string
	Strategy  string
	SKU       SKU
	Point     Points
	Since     time.Time
}

// Pauses are the sales of one instance that wait at a point. The zero value is ready.
type Pauses struct {
	mu       sync.Mutex
	waiting  []*paused           // oldest first
	underway map[*stops]struct{} // sales that can be told to wait; of an instance that is watched, all
	all      Points              // where every sale is to wait
}

type paused struct {
	Pause
	release chan struct{}
}

// List returns the sales that wait, oldest first.
func (p *Pauses) List() []Pause {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Pause, len(p.waiting))
	for i, w := range p.waiting {
		list[i] = w.Pause
	}
	return list
}

// Release lets the oldest sale of that request id go on, to its next point if it has one. The error matches
// ErrNotPaused if none waits.
func (p *Pauses) Release(requestID string) (Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.waiting {
		if w.RequestID == requestID {
			p.waiting = slices.Delete(p.waiting, i, i+1)
			close(w.release)
			return w.Pause, nil
		}
	}
	return Pause{}, fmt.Errorf("request %s: %w", requestID, ErrNotPaused)
}

// Step lets every sale that waits go on to its next point, and returns how many.
func (p *Pauses) Step() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.waiting)
	for _, w := range p.waiting {
		close(w.release)
	}
	p.waiting = nil
	return n
}

// Hold makes the sales of a request id, which are under way, wait at further points. Those that they have passed do
// nothing. Unlike the points that a request brings along, these give its critical section no more time. The error
// matches ErrNotPaused if there is no such sale.
func (p *Pauses) Hold(requestID string, points Points) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for s := range p.underway {
		if s.who.RequestID == requestID {
			s.points |= points
			found = true
		}
	}
	if !found {
		return fmt.Errorf("request %s: %w", requestID, ErrNotPaused)
	}
	return nil
}

// HoldAll makes every sale wait at these points: those under way, as [Pauses.Hold] does, and those to come. With none
// nobody is to wait anywhere any more, and who waits goes on.
func (p *Pauses) HoldAll(points Points) {
	p.mu.Lock()
	p.all = points
	for s := range p.underway {
		s.points |= points
		if points == 0 {
			s.points = 0
		}
	}
	p.mu.Unlock()
	if points == 0 {
		p.Step()
	}
}

// wait makes w wait until it is released, ctx ends (with its cause), or MaxPause is over.
func (p *Pauses) wait(ctx context.Context, w *paused) error {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting = slices.DeleteFunc(p.waiting, func(other *paused) bool { return other == w })
	}()
	timer := time.NewTimer(MaxPause)
	defer timer.Stop()
	select {
	case <-w.release:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stops are the points where one sale is to wait, each once. A sale that cannot be told to has nil, and each point then
// costs it the comparison of a pointer.
type stops struct {
	pauses *Pauses
	points Points // guarded by pauses.mu: a sale under way may get more
	who    Pause
	watch  Watcher
}

func (s *Service) stops(req Request) *stops {
	if s.Pauses == nil || req.Lab.Pause == 0 && s.Watch == nil {
		return nil
	}
	own := &stops{
		s.Pauses, req.Lab.Pause, Pause{RequestID: req.RequestID, Strategy: req.Strategy, SKU: req.SKU}, s.Watch,
	}
	s.Pauses.mu.Lock()
	defer s.Pauses.mu.Unlock()
	own.points |= s.Pauses.all
	if s.Pauses.underway == nil {
		s.Pauses.underway = make(map[*stops]struct{})
	}
	s.Pauses.underway[own] = struct{}{}
	return own
}

// end says that the sale is over.
func (s *stops) end() {
	if s != nil {
		s.pauses.mu.Lock()
		defer s.pauses.mu.Unlock()
		delete(s.pauses.underway, s)
	}
}

// at waits if the sale is to wait here. The error is ctx's.
func (s *stops) at(ctx context.Context, point Points) error {
	if s == nil {
		return nil
	}
	return s.wait(ctx, point)
}

func (s *stops) wait(ctx context.Context, point Points) error {
	w := s.stand(point)
	if w == nil {
		return nil
	}
	s.tell(Paused, point)
	defer s.tell(Resumed, point)
	return s.pauses.wait(ctx, w)
}

// stand enters the sale in the list of those that wait, if it is to wait here.
func (s *stops) stand(point Points) *paused {
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	if s.points&point == 0 {
		return nil
	}
	s.points &^= point
	w := &paused{s.who, make(chan struct{})}
	w.Point, w.Since = point, time.Now()
	s.pauses.waiting = append(s.pauses.waiting, w)
	return w
}

func (s *stops) tell(kind StepKind, point Points) {
	if s.watch != nil {
		s.watch.Tell(Step{
			At: time.Now(), Kind: kind, RequestID: s.who.RequestID, Strategy: s.who.Strategy, SKU: s.who.SKU,
			Point: point,
		})
	}
}

// longest is how much longer the critical section may take for the pauses that are still to come.
func (s *stops) longest() time.Duration {
	if s == nil {
		return 0
	}
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	return time.Duration(bits.OnesCount8(uint8(s.points))) * MaxPause
}

// A Nesting is how work, in the lab, asks for the lock that it holds already. The empty one does not.
type Nesting string

// The nestings.
const (
	NestedHolder   Nesting = "holder"   // as the holder that it is: re-enters, where the lock promises that
	NestedStranger Nesting = "stranger" // with a context of its own, as code that passes none on: it waits for itself
)

// nest asks for the lock again if the lab wants that, and then works.
func (s *Sale) nest(ctx context.Context, l lock.Locker, work func(context.Context) error) error {
	if s.lab.Nested == "" {
		return work(ctx)
	}
	asking := ctx
	if s.lab.Nested == NestedStranger {
		asking = context.Background()
	}
	again := func(context.Context, lock.Fence) error { return work(ctx) }
	return lock.Do(asking, l, string(s.SKU), s.locking(ctx), again)
}
