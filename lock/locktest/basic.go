package locktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

func keys(ctx context.Context, s *Scene) error {
	l := s.Locker(ctx)
	one, err := once(ctx, l, s.Key)
	if err != nil {
		return err
	}
	two, err := once(ctx, l, FreshKey())
	if err != nil {
		return err
	}
	return errors.Join(one.Release(), two.Release())
}

func tryOnce(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return fmt.Errorf("on a free key: %w", err)
	}
	other := s.Locker(ctx)
	if _, err := once(ctx, other, s.Key); !errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("on a held key: %v, want ErrHeld", err)
	}
	return isFree(ctx, s, lease)
}

func boundedWait(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	other := s.Locker(ctx)
	warm, err := once(ctx, other, FreshKey()) // without a connection a wait may end before the holder is known
	if err != nil {
		return err
	}
	// On a busy computer the answer may come too late.
	for _, long := range []time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second} {
		wait, cancel := context.WithTimeout(ctx, long)
		_, err = other.Acquire(wait, s.Key, lock.Options{})
		cancel()
		if errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("err = %v, want ErrHeld and DeadlineExceeded", err)
	}
	return isFree(ctx, s, warm, lease)
}

func cancelledWait(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := range 8 {
		wait, cancel := context.WithTimeout(ctx, time.Duration(5+10*i)*time.Millisecond)
		defer cancel()
		came := Come(wait, s.Locker(ctx), s.Key, "")
		all.Go(func() { <-came })
	}
	all.Wait()
	return isFree(ctx, s, lease)
}

func deadContext(ctx context.Context, s *Scene) error {
	past, end := context.WithTimeout(ctx, -time.Second)
	defer end()
	for _, once := range []bool{false, true} {
		_, err := s.Locker(ctx).Acquire(past, s.Key, lock.Options{TryOnce: once})
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, lock.ErrDown) {
			return fmt.Errorf("TryOnce %t: %v, want DeadlineExceeded and not ErrDown: nobody was asked", once, err)
		}
	}
	dead, cancel := context.WithCancel(ctx)
	cancel()
	if lease, err := s.Locker(ctx).Acquire(dead, s.Key, lock.Options{}); err == nil {
		// A lock without a server may succeed before it notices that ctx is canceled. Then Release must succeed.
		return lease.Release()
	}
	return isFree(ctx, s)
}

func invalid(ctx context.Context, s *Scene) error {
	for _, key := range []string{"", strings.Repeat("k", driver.MaxKey+1)} {
		lease, err := s.Locker(ctx).Acquire(ctx, key, lock.Options{TryOnce: true})
		if err == nil {
			_ = lease.Release()
		}
		if !errors.Is(err, lock.ErrInvalid) {
			return fmt.Errorf("a key of %d bytes: %v, want ErrInvalid", len(key), err)
		}
	}
	lease, err := once(ctx, s.Locker(ctx), strings.Repeat("k", driver.MaxKey-len(s.Key))+s.Key)
	if err != nil {
		return fmt.Errorf("the longest key: %w", err)
	}
	return lease.Release()
}

// closed closes a lock while a caller waits on it.
func closed(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	l, closeAll, err := s.Open(addrs(s.Servers), calm)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	waited := Come(wait, l, s.Key, "")
	if err := waits(waited, 50*time.Millisecond); err != nil {
		return errors.Join(err, closeAll())
	}
	if err := closeAll(); err != nil {
		return err
	}
	if err := <-waited; !errors.Is(err, lock.ErrClosed) {
		return fmt.Errorf("a wait ended with %v, want ErrClosed", err)
	}
	if _, err := l.Acquire(ctx, FreshKey(), lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrClosed) {
		return fmt.Errorf("a closed lock: %v, want ErrClosed", err)
	}
	return isFree(ctx, s, lease)
}

// panics lets work panic, once after nested work has reported an unknown outcome.
func panics(ctx context.Context, s *Scene) error {
	l := s.Locker(ctx)
	work := func(key string, before func(context.Context)) (err error) {
		for err = lock.ErrDown; errors.Is(err, lock.ErrDown) && ctx.Err() == nil; {
			func() {
				defer func() { _ = recover() }()
				err = lock.Do(ctx, l, key, lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
					err = nil
					before(ctx)
					panic("work")
				})
			}()
		}
		return err
	}
	key := FreshKey()
	err := work(key, func(inside context.Context) { _ = lock.Do(inside, l, key, lock.Options{}, unanswered) })
	if err != nil {
		return err
	}
	if _, err := once(ctx, s.Locker(ctx), key); !errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("after a write of unknown outcome: %v, want ErrHeld", err)
	}
	if err := work(s.Key, func(context.Context) {}); err != nil {
		return err
	}
	return isFree(ctx, s)
}

func handover(ctx context.Context, s *Scene) error {
	return s.handover(ctx, s.Locker(ctx), s.Locker(ctx), 50*time.Millisecond)
}

// handover lets one caller wait for that long while another holds the key, and then releases it.
func (s *Scene) handover(ctx context.Context, holder, waiter lock.Locker, long time.Duration) error {
	lease, err := once(ctx, holder, s.Key)
	if err != nil {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got := Come(wait, waiter, s.Key, "")
	if err := waits(got, long); err != nil {
		return err
	}
	if err := lease.Release(); err != nil {
		return err
	}
	return <-got
}

// waits fails if who has come does not wait for a held key for so long. If he has not even begun, the check is only
// weaker.
func waits(came <-chan error, long time.Duration) error {
	select {
	case err := <-came:
		return fmt.Errorf("the wait for a held key ended (err = %w)", err)
	case <-time.After(long):
		return nil
	}
}

func release(ctx context.Context, s *Scene) error {
	first, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return err
	}
	second, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	if err := first.Release(); err != nil {
		return fmt.Errorf("second Release: %w", err)
	}
	if _, err := once(ctx, s.Locker(ctx), s.Key); !errors.Is(err, lock.ErrHeld) {
		return fmt.Errorf("the next holder's key was freed (err = %v)", err)
	}
	return second.Release()
}

func done(ctx context.Context, s *Scene) error {
	lease, err := once(ctx, s.Locker(ctx), s.Key)
	if err != nil {
		return err
	}
	select {
	case <-lease.Done():
		return fmt.Errorf("the lease has ended while held: %w", lease.Err())
	default:
	}
	if lease.Err() != nil || lease.Key() != s.Key {
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

// reentry holds a key under Do and acquires it again, once with the context from Do and once with another context.
func reentry(ctx context.Context, s *Scene) error {
	l := s.Locker(ctx)
	return lock.Do(ctx, l, s.Key, lock.Options{}, func(inside context.Context, outer lock.Fence) error {
		again := func(_ context.Context, f lock.Fence) error {
			if f != outer {
				return fmt.Errorf("inside has fence %d, outside %d", f, outer)
			}
			return nil
		}
		bound, cancel := context.WithTimeout(inside, timeout)
		defer cancel()
		if err := lock.Do(bound, l, s.Key, lock.Options{}, again); err != nil {
			return fmt.Errorf("again, under the context of the holder: %w", err)
		}
		if _, err := once(ctx, l, s.Key); !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("again, under another context: %v, want ErrHeld", err)
		}
		return nil
	})
}
