package order

import (
	"context"
	"sync"
	"time"
)

// A lazy Store searches for expired reservations at most once per pause. After its first step, or after a search has
// found a reservation, it searches at every call of Due.
type lazy struct {
	Store
	pause time.Duration

	mu    sync.Mutex
	awake bool
	next  time.Time // no search before this time
}

// Lazily returns a Store for a demonstration, which may have no orders at all: the sweeper's searches must not
// disturb measurements.
func Lazily(s Store, pause time.Duration) Store { return &lazy{Store: s, pause: pause} }

func (l *lazy) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awake = true
}

func (l *lazy) Step(
	ctx context.Context, about About, decide func(State) (Changes, error),
) (reply []byte, replayed bool, err error) {
	l.wake()
	return l.Store.Step(ctx, about, decide)
}

func (l *lazy) Batch(ctx context.Context, steps []Request) []StepResult {
	l.wake()
	return l.Store.Batch(ctx, steps)
}

func (l *lazy) Due(ctx context.Context, skip, limit int) ([]Reservation, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.awake && time.Now().Before(l.next) {
		return nil, nil
	}
	due, err := l.Store.Due(ctx, skip, limit)
	if err == nil {
		l.awake, l.next = l.awake || len(due) > 0, time.Now().Add(l.pause)
	}
	return due, err
}
