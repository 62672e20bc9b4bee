package service

import (
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"
	"time"
)

// Lab has the lab settings of one sale. The zero value is normal service.
type Lab struct {
	Hold       time.Duration // pause this long between read and write
	Unfenced   bool          // write without the fence
	IgnoreLoss bool          // continue after the lease is lost, like code that does not check it
	Pause      Points        // wait at these points until released
	Nested     Nesting       // acquire the lock again inside the critical section
}

// MaxPause is the longest pause at one point. After it the sale continues by itself, and Release returns
// ErrNotPaused.
const MaxPause = time.Minute

// Points are places in a sale at which the lab can pause it until it is released, to force an interleaving. Some
// strategies lack some points: an atomic write has none between its read and its write.
type Points uint8

// The points, in the order of a sale.
const (
	BeforeLock  Points = 1 << iota // before anything is sent, and before the wait for the lock
	AfterLock                      // in the critical section, before the read; missing if the read acquires the lock
	AfterRead                      // the quantity was read
	BeforeWrite                    // after the business logic
	AfterWrite                     // the order is in the store, or in the open transaction, and the lock is held
	AfterUnlock                    // the lock was released, and the reply not sent
)

func pointNames() []string {
	return []string{"before_lock", "after_lock", "after_read", "before_write", "after_write", "after_unlock"}
}

// ParsePoints parses a list of names, separated by commas. The error is an InvalidError for the field "pause".
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

// A Pause describes a sale that waits at a point.
type Pause struct {
	RequestID string
	Strategy  string
	SKU       SKU
	Point     Points
	Since     time.Time
}

// Pauses holds the sales of one instance that wait at a point. The zero value is ready.
type Pauses struct {
	mu       sync.Mutex
	waiting  []*paused           // oldest first
	underway map[*stops]struct{} // sales that can be paused; with a Watcher, all
	all      Points              // where every sale waits
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

// Release lets the oldest waiting sale with this request id continue to its next point, or to its end. The error
// matches ErrNotPaused if no such sale waits.
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

// ReleaseAll lets every waiting sale continue to its next point, and returns the number of sales that waited.
func (p *Pauses) ReleaseAll() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.waiting)
	for _, w := range p.waiting {
		close(w.release)
	}
	p.waiting = nil
	return n
}

// Hold adds points to the sales under way that have this request id. Points that a sale has passed have no effect on
// it. Unlike the points of a request, these do not extend the time limit of the critical section. The error matches
// ErrNotPaused if there is no such sale.
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

// HoldAll makes every sale wait at these points: those under way (see [Pauses.Hold]) and later ones. With no points
// it removes all points and lets every waiting sale continue.
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
		p.ReleaseAll()
	}
}

// wait returns nil when w is released or after MaxPause. If ctx ends, it returns the cause.
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

// stops holds the points where one sale waits, each once. It is nil for a sale that cannot be paused.
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

func (s *stops) end() {
	if s != nil {
		s.pauses.mu.Lock()
		defer s.pauses.mu.Unlock()
		delete(s.pauses.underway, s)
	}
}

// at waits if point is one of the sale's points. If ctx ends, or one of needs goes down, it returns the cause.
func (s *stops) at(ctx context.Context, point Points, needs ...Dependency) error {
	if s == nil {
		return nil
	}
	w := s.enqueue(point)
	if w == nil {
		return nil
	}
	ctx, done := While(ctx, needs...)
	defer done()
	s.tell(Paused, point)
	defer s.tell(Resumed, point)
	return s.pauses.wait(ctx, w)
}

// enqueue adds the sale to the waiting ones if point is one of its points. Otherwise it returns nil.
func (s *stops) enqueue(point Points) *paused {
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

// longest returns the longest time that the remaining pauses may add to the critical section.
func (s *stops) longest() time.Duration {
	if s == nil {
		return 0
	}
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	return time.Duration(bits.OnesCount8(uint8(s.points))) * MaxPause
}
