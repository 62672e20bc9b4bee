package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/stock/lock"
)

// Sentences is the suite.
func Sentences() []Sentence {
	return []Sentence{
		{"Exclusion", "Two leases of one key are never held at the same time.", exclusive, exclusion},
		{"Keys", "A lease of one key does not keep anybody from another.", exclusive, keys},
		{"TryOnce", "Who tries once is told at once that the key is held, and gets it when it is free.", exclusive, tryOnce},
		{"BoundedWait", "A wait ends with its context, with ErrHeld and the context's cause.", exclusive, boundedWait},
		{"CancelledWait", "Who stops waiting leaves nothing behind: the next one does not wait for him.", exclusive, cancelledWait},
		{"DeadContext", "A context that has ended gets no lease, and leaves nothing behind.", exclusive, deadContext},
		{"Handover", "Who waits gets the key when it is released.", blocking, handover},
		{"Release", "Release is idempotent: the second one does not free the next holder's key.", exclusive, release},
		{"Done", "Done closes on release, and Err then says ErrReleased.", always, done},
		{"Fences", "Of two holders the later one has the larger fence, whoever they are.", fenced, fences},
		{"FIFO", "Who came first is served first, across processes.", fair, fifo},
	}
}

// exclusion records the holds of 24 contenders on three Lockers and looks for an overlap.
func exclusion(ctx context.Context, b Bench) error {
	type hold struct{ from, to time.Time }
	const lockers, contenders, rounds = 3, 8, 12
	var mu sync.Mutex
	var history []hold
	var failed error
	var all sync.WaitGroup
	for range lockers {
		l := b.Open()
		for range contenders {
			all.Go(func() {
				for range rounds {
					lease, err := insist(ctx, l, b.Key)
					if err != nil {
						mu.Lock()
						failed = errors.Join(failed, err)
						mu.Unlock()
						return
					}
					from := time.Now()
					time.Sleep(100 * time.Microsecond) // widens the window in which an overlap would show
					to := time.Now()
					if err := lease.Release(); err != nil {
						mu.Lock()
						failed = errors.Join(failed, fmt.Errorf("release: %w", err))
						mu.Unlock()
					}
					mu.Lock()
					history = append(history, hold{from, to})
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	slices.SortFunc(history, func(a, b hold) int { return a.from.Compare(b.from) })
	overlaps := 0
	for i := 1; i < len(history); i++ {
		if history[i].from.Before(history[i-1].to) {
			overlaps++
		}
	}
	if overlaps > 0 {
		return fmt.Errorf("%d of %d holds overlap with the one before", overlaps, len(history))
	}
	return nil
}

func keys(ctx context.Context, b Bench) error {
	l := b.Open()
	one, err := once(ctx, l, b.Key)
	if err != nil {
		return err
	}
	two, err := once(ctx, l, FreshKey())
	if err != nil {
		return err
	}
	return errors.Join(one.Release(), two.Release())
}

func tryOnce(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return fmt.Errorf("on a free key: %w", err)
	}
	other := b.Open()
	if _, err := once(ctx, other, b.Key); !errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("on a held key: %v, want ErrHeld", err)
	}
	if err := lease.Release(); err != nil {
		return err
	}
	return isFree(ctx, b)
}

func boundedWait(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if _, err := b.Open().Acquire(wait, b.Key); !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("err = %v, want ErrHeld and DeadlineExceeded", err)
	}
	if err := lease.Release(); err != nil {
		return err
	}
	return isFree(ctx, b)
}

func cancelledWait(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range 8 {
		wait, cancel := context.WithTimeout(ctx, time.Duration(5+10*i)*time.Millisecond)
		defer cancel()
		l := b.Open()
		all.Go(func() {
			if late, err := l.Acquire(wait, b.Key); err == nil {
				_ = late.Release()
			}
		})
	}
	all.Wait()
	if err := lease.Release(); err != nil {
		return err
	}
	return isFree(ctx, b)
}

func deadContext(ctx context.Context, b Bench) error {
	dead, cancel := context.WithCancel(ctx)
	cancel()
	if lease, err := b.Open().Acquire(dead, b.Key); err == nil {
		// A lock that needs no server may be quicker than its context; it must be a real lease then.
		return lease.Release()
	}
	return isFree(ctx, b)
}

func handover(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l := b.Open()
	go func() {
		next, err := l.Acquire(wait, b.Key)
		if err == nil {
			err = next.Release()
		}
		got <- err
	}()
	select {
	case err := <-got:
		return fmt.Errorf("got a held key (err = %v)", err)
	case <-time.After(50 * time.Millisecond): // lets it begin to wait; if it has not, the sentence is only weaker
	}
	if err := lease.Release(); err != nil {
		return err
	}
	return <-got
}

func release(ctx context.Context, b Bench) error {
	first, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return err
	}
	second, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return fmt.Errorf("second Release: %w", err)
	}
	if _, err := once(ctx, b.Open(), b.Key); !errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("the next holder's key was freed (err = %v)", err)
	}
	return second.Release()
}

func done(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	select {
	case <-lease.Done():
		return fmt.Errorf("the lease has ended while held: %w", lease.Err())
	default:
	}
	if lease.Err() != nil || lease.Key() != b.Key {
		return fmt.Errorf("while held Err = %v and Key = %q", lease.Err(), lease.Key())
	}
	if err := lease.Release(); err != nil {
		return err
	}
	<-lease.Done()
	if !errors.Is(lease.Err(), lock.ErrReleased) {
		return fmt.Errorf("after release Err = %v", lease.Err())
	}
	return nil
}

func fences(ctx context.Context, b Bench) error {
	var last lock.Fence
	lockers := []lock.Locker{b.Open(), b.Open()}
	for i := range 20 {
		lease, err := once(ctx, lockers[i%2], b.Key)
		if err != nil {
			return err
		}
		if lease.Fence() <= last {
			return fmt.Errorf("fence %d after %d", lease.Fence(), last)
		}
		last = lease.Fence()
		if err := lease.Release(); err != nil {
			return err
		}
	}
	return nil
}

func fifo(ctx context.Context, b Bench) error {
	lease, err := once(ctx, b.Open(), b.Key)
	if err != nil {
		return err
	}
	lockers := []lock.Locker{b.Open(), b.Open(), b.Open()}
	var mu sync.Mutex
	var order []int
	var failed error
	var all sync.WaitGroup
	for i := range 9 {
		all.Go(func() {
			next, err := lockers[i%3].Acquire(ctx, b.Key)
			mu.Lock()
			order, failed = append(order, i), errors.Join(failed, err)
			mu.Unlock()
			if err == nil {
				_ = next.Release()
			}
		})
		time.Sleep(60 * time.Millisecond) // arrivals must be apart, or there is no first
	}
	if err := lease.Release(); err != nil {
		return err
	}
	all.Wait()
	if failed != nil {
		return failed
	}
	if !slices.IsSorted(order) {
		return fmt.Errorf("served in the order %v", order)
	}
	return nil
}
