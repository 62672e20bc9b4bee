package lock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// A doorkeeper is a stubborn locker that is asked at its door first: nil lets the caller in, an ErrHeld makes it wait,
// and any other error is the end.
type doorkeeper struct {
	stubborn
	begun  chan asking
	answer chan error
}

func newDoorkeeper() *doorkeeper {
	return &doorkeeper{
		stubborn{make(chan asking, 8), make(chan error)}, make(chan asking, 8), make(chan error),
	}
}

func (d *doorkeeper) Start(ctx context.Context, key string, o lock.Options) (
	*lock.Lease, func(context.Context) (*lock.Lease, error), error,
) {
	d.begun <- asking{ctx, o.Owner}
	switch err := <-d.answer; {
	case errors.Is(err, lock.ErrHeld):
		return nil, func(ctx context.Context) (*lock.Lease, error) {
			o.Woken()
			return d.Acquire(ctx, key, o)
		}, nil
	case err != nil:
		return nil, nil, err
	}
	lease, _ := lock.NewLease(key, 1, func(context.Context) error { return nil })
	return lease, nil, nil
}

// come acquires and releases, and appends to served when it is served.
func come(ctx context.Context, l lock.Locker, who string, served *[]string) (done chan error, woken *int) {
	done, woken = make(chan error, 1), new(int)
	go func() {
		lease, err := l.Acquire(ctx, "k", lock.Options{Owner: who, OnWake: func() { *woken++ }})
		if err == nil {
			*served = append(*served, who)
			err = lease.Release()
		}
		done <- err
	}()
	synctest.Wait()
	return done, woken
}

// Who finds nobody begins the acquisition itself, with its own ctx. If the key is free, that is all.
func TestHandOverBeginsInTheCallersPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorkeeper()
		l := lock.HandOver(d, lock.Bound{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var served []string
		done, _ := come(ctx, l, "a", &served)
		if begun := <-d.begun; begun.Context != ctx || begun.owner != "a" {
			t.Errorf("asked by %q, with another ctx: %v", begun.owner, begun.Context != ctx)
		}
		d.answer <- nil
		if err := <-done; err != nil || len(d.asked) > 0 || !slices.Equal(served, []string{"a"}) {
			t.Errorf("%v, served %q, asked %d times more", err, served, len(d.asked))
		}
	})
}

// If another process has the key, the caller is the first of those who wait, also of those who came while it asked. The
// wait is that of all of them: it goes on when the caller gives up, and a wake-up is told to the first.
func TestHandOverWaitsInThePlaceThatWasBegun(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			d := newDoorkeeper()
			l := lock.HandOver(d, lock.Bound{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var served []string
			first, woken := come(ctx, l, "a", &served)
			second, others := come(t.Context(), l, "b", &served)
			if who := triesOnce(t, l); who != "a" {
				t.Errorf("%q is told to be next, want the one that asks", who)
			}
			d.answer <- lock.ErrHeld
			synctest.Wait()
			if *woken != 1 || *others != 0 {
				t.Errorf("woken %d and %d times, want the first alone", *woken, *others)
			}
			want := []string{"a", "b"}
			if leaves {
				cancel()
				if err := <-first; !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.Canceled) {
					t.Errorf("who gave up was told %v", err)
				}
				want = []string{"b"}
			}
			if wait := <-d.asked; wait.Err() != nil || wait.owner != "a" {
				t.Errorf("asked by %q, and the wait has ended: %v", wait.owner, wait.Err())
			}
			d.stubborn.answer <- nil
			if err := <-second; err != nil || !slices.Equal(served, want) || len(d.begun) != 1 {
				t.Errorf("%v, served %q, want %q; begun %d times", err, served, want, len(d.begun))
			}
		})
	}
}

// A beginning that fails is the caller's alone. Those who came meanwhile are asked for anew.
func TestHandOverGoesOnAfterABeginningThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorkeeper()
		l := lock.HandOver(d, lock.Bound{})
		down := errors.New("backend down")
		var served []string
		first, _ := come(t.Context(), l, "a", &served)
		second, _ := come(t.Context(), l, "b", &served)
		d.answer <- down
		if err := <-first; !errors.Is(err, down) {
			t.Errorf("the first was told %v", err)
		}
		if asked := <-d.asked; asked.owner != "b" {
			t.Errorf("then asked by %q", asked.owner)
		}
		d.stubborn.answer <- nil
		if err := <-second; err != nil || !slices.Equal(served, []string{"b"}) {
			t.Errorf("%v, served %q", err, served)
		}
	})
}
