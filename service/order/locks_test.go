package order

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// ring counts who holds what, for the Service alone; locks of the real servers are tried in lock.
type ring struct {
	lock.Queue
	mu    sync.Mutex
	fence lock.Fence
}

func (r *ring) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := r.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fence++
	lease, _ := lock.NewLease(key, r.fence, func(context.Context) error {
		r.Leave(key)
		return nil
	})
	return lease, nil
}

func TestUnderLocksTheFencesGoWithTheStep(t *testing.T) {
	m, s := stocked(t)
	l := &ring{}
	s.Lock, s.Wait = l, time.Second
	r, _, err := s.Reserve(t.Context(), "", "ann", []Line{{"b", 1}, {"a", 1}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Confirm(t.Context(), "", "ann", r.ID); err != nil {
		t.Fatal(err)
	}
	last := m.about[len(m.about)-2:]
	for i, want := range []map[service.SKU]uint64{{"a": 1, "b": 2}, {"a": 3, "b": 4}} {
		if got := fmt.Sprint(last[i].Fences); got != fmt.Sprint(want) {
			t.Errorf("fences %v, want %v", got, want)
		}
	}
	steps := len(m.about)
	_, _, err = s.Place(t.Context(), "", "ann", []Line{{"a", 1}, {"ghost", 1}})
	if !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("err = %v, want ErrUnknownSKU", err)
	}
	if l.fence != 4 || len(m.about) != steps {
		t.Errorf("a SKU that does not exist: fence %d, want 4; %d steps without a lock", l.fence, len(m.about)-steps)
	}
	o, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}})
	if err != nil {
		t.Fatal(err)
	}
	_, _, order := s.CancelOrder(t.Context(), "", "bob", o.ID)
	_, _, reservation := s.CancelReservation(t.Context(), "", "bob", r.ID)
	if l.fence != 5 || !errors.Is(order, ErrNotFound) || !errors.Is(reservation, ErrNotFound) {
		t.Errorf("another's order was locked: fence %d, %v, %v", l.fence, order, reservation)
	}
	if err := l.Enter(t.Context(), "a", lock.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Wait = 0
	if _, _, err := s.Place(t.Context(), "", "ann", []Line{{"a", 1}}); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("err = %v, want ErrHeld", err)
	}
	l.Leave("a")
}
