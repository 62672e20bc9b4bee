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

// Pauses holds the sales of one instance that can wait at a point. The zero value is ready.
type Pauses struct {
	mu       sync.Mutex
	underway map[*stops]struct{} // with a Watcher, all sales
	all      Points              // where every sale waits
}

// waiting returns the sales that wait, oldest first.
func (p *Pauses) waiting() (list []*stops) {
	for s := range p.underway {
		if s.release != nil {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *stops) int { return a.Since.Compare(b.Since) })
	return list
}

// List returns the sales that wait, oldest first.
func (p *Pauses) List() (list []Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.waiting() {
		list = append(list, s.Pause)
	}
	return list
}

// Release lets the oldest waiting sale with this request id continue to its next point, or to its end. The error
// matches ErrNotPaused if no such sale waits.
func (p *Pauses) Release(requestID string) (Pause, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.waiting() {
		if s.RequestID == requestID {
			s.goOn()
			return s.Pause, nil
		}
	}
	return Pause{}, fmt.Errorf("request %s: %w", requestID, ErrNotPaused)
}

// ReleaseAll lets every waiting sale continue to its next point, and returns the number of sales that waited.
func (p *Pauses) ReleaseAll() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	waiting := p.waiting()
	for _, s := range waiting {
		s.goOn()
	}
	return len(waiting)
}

// Hold adds points to the sales under way that have this request id. Points that a sale has passed have no effect on
// it. Unlike the points of a request, these do not extend the time limit of the critical section. The error matches
// ErrNotPaused if there is no such sale.
func (p *Pauses) Hold(requestID string, points Points) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := false
	for s := range p.underway {
		if s.RequestID == requestID {
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

// stops holds the points where one sale waits, each once. It is nil for a sale that cannot be paused.
type stops struct {
	pauses *Pauses
	watch  Watcher

	// pauses.mu guards the rest: a sale under way may get more points.
	Pause   // the present one or the last
	points  Points
	release chan struct{} // closed to let the sale continue; nil: it does not wait
}

func (s *Service) stops(req Request) *stops {
	if s.Pauses == nil || req.Lab.Pause == 0 && s.Watch == nil {
		return nil
	}
	own := &stops{
		pauses: s.Pauses, watch: s.Watch, points: req.Lab.Pause,
		Pause: Pause{RequestID: req.RequestID, Strategy: req.Strategy, SKU: req.SKU},
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

func (s *stops) goOn() {
	close(s.release)
	s.release = nil
}

// at waits if point is one of the sale's points, until the sale is released or MaxPause has passed. If ctx ends, or one
// of needs goes down, it returns the cause.
func (s *stops) at(ctx context.Context, point Points, needs ...Dependency) error {
	if s == nil {
		return nil
	}
	released := s.pause(point)
	if released == nil {
		return nil
	}
	ctx, done := While(ctx, needs...)
	defer done()
	s.tell(Paused, point)
	defer s.tell(Resumed, point)
	defer func() {
		s.pauses.mu.Lock()
		defer s.pauses.mu.Unlock()
		s.release = nil
	}()
	timer := time.NewTimer(MaxPause)
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// pause makes the sale one that waits, until the result is closed. If point is none of its points, it returns nil.
func (s *stops) pause(point Points) (released <-chan struct{}) {
	s.pauses.mu.Lock()
	defer s.pauses.mu.Unlock()
	if s.points&point == 0 {
		return nil
	}
	s.points &^= point
	s.Point, s.Since, s.release = point, time.Now(), make(chan struct{})
	return s.release
}

func (s *stops) tell(kind StepKind, point Points) {
	if s.watch != nil {
		s.watch.Tell(Step{
			At: time.Now(), Kind: kind, RequestID: s.RequestID, Strategy: s.Strategy, SKU: s.SKU, Point: point,
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
