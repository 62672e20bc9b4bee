package locktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// exclusion lets several processes contend for a key, or several Lockers of this process, and checks what they
// recorded.
func exclusion(ctx context.Context, s *Scene) error {
	const lockers = 3
	what := storm{
		Keys: []string{s.Key}, Workers: 6, Rounds: 20, Hold: 200 * time.Microsecond, Limit: 5 * time.Second,
	}
	var history []Hold
	var err error
	if cluster(s.Harness) {
		var list []*remote
		if list, err = s.processes(ctx, lockers, calm); err == nil {
			history, err = runStorms(ctx, list, what)
		}
	} else {
		var storms [lockers][]Hold
		err = parallel(lockers, lockers, func(i int) (err error) {
			storms[i], err = what.run(ctx, s.Locker(ctx))
			return err
		})
		history = slices.Concat(storms[:]...)
	}
	if err != nil {
		return err
	}
	return Overlaps(history, s.Promise.Fenced)
}

// runStorms lets every process run the storm, and returns all holds.
func runStorms(ctx context.Context, list []*remote, what storm) ([]Hold, error) {
	histories := make([][]Hold, len(list))
	err := parallel(len(list), len(list), func(i int) error {
		answer, err := list[i].call(ctx, request{Do: "storm", Locker: list[i].locker, Storm: what})
		histories[i] = answer.Holds
		return err
	})
	return slices.Concat(histories...), err
}

// parallel calls do for 0 to n-1, at most atOnce at a time.
func parallel(n, atOnce int, do func(i int) error) error {
	failed := make([]error, n)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			failed[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// renewal holds a key for two and a half leases, while another process waits for it in vain. The proxies answer pings,
// if the protocol has them: those prove nothing about the server. Then the proxies lose the holder's session.
func renewal(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 1, s.Lease)
	if err != nil {
		return err
	}
	sound := list[0]
	return s.retry(ctx, func() error {
		far, err := s.distant(ctx)
		if err != nil {
			return err
		}
		for _, w := range far.wires {
			w.AnswerPings()
		}
		h, err := s.hold(ctx, far.remote, FreshKey())
		if err != nil {
			return err
		}
		rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: 5 * s.Lease / 2})
		if err == nil {
			return errors.Join(fmt.Errorf("another had the key after %v of a lease of %v", rival.From-h.From, s.Lease),
				s.noRival(ctx, h, rival, nil))
		}
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a waiter was told %w, want ErrHeld", err)
		}
		if s.Wire.Pong != nil {
			for _, w := range far.wires {
				w.EndSessions()
			}
			rival, err = sound.acquire(ctx, attempt{Key: h.Key, Wait: 5 * s.Lease / 2})
			return s.noRival(ctx, h, rival, err)
		}
		if _, err := h.release(ctx); err != nil {
			return fmt.Errorf("the lease was lost: %w", err)
		}
		return nil
	})
}

// expiry lets a lease run out. If it is renewed, the network swallows the renewals. The network is slow, so a holder
// that counts from the reply to its request notices the end too late.
func expiry(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 1, s.Lease)
	if err != nil {
		return err
	}
	sound := list[0]
	return s.retry(ctx, func() error {
		if err := s.overdue(ctx, sound); err != nil {
			return fmt.Errorf("a reply came after the end of its lease: %w", err)
		}
		far, err := s.connected(ctx)
		if err != nil {
			return err
		}
		for _, w := range far.wires {
			w.Slow(s.Lease / 16)
		}
		h, err := far.acquire(ctx, attempt{Key: FreshKey(), Wait: s.timeout}) // a failure breaks the connections
		if err != nil {
			return err
		}
		if s.Renews {
			for _, w := range far.wires {
				w.Silence(wire.ToServer, wire.ToClient)
				defer w.Silence()
			}
		}
		return s.follow(ctx, h, sound)
	})
}

// connected is distant, with connections that have been used.
func (s *Scene) connected(ctx context.Context) (*distant, error) {
	far, err := s.distant(ctx)
	if err != nil {
		return nil, err
	}
	before, err := s.hold(ctx, far.remote, FreshKey())
	if err != nil {
		return nil, err
	}
	_, err = before.release(ctx)
	return far, err
}

// overdue holds the reply to an acquisition back until another process has the key. If the server keeps the key for as
// long as the connection lives, no other gets it.
func (s *Scene) overdue(ctx context.Context, sound *remote) error {
	far, err := s.connected(ctx)
	if err != nil {
		return err
	}
	key := FreshKey()
	far.set(wire.Trap{Do: wire.HoldReply})
	wait, err := far.begin(attempt{Key: key, Wait: 3 * s.Lease, Try: true})
	if err != nil {
		return err
	}
	for _, snare := range far.snares {
		select {
		case <-snare.Sprung():
		case <-time.After(s.Lease):
		}
	}
	rival, failed := sound.acquire(ctx, attempt{Key: key, Wait: 2 * s.Lease, Insist: true})
	for _, snare := range far.snares {
		snare.Release()
	}
	h, err := wait(ctx)
	switch {
	case err == nil && failed == nil:
		return s.noRival(ctx, h, rival, nil)
	case err == nil:
		_, _ = h.release(ctx)
	case failed == nil:
		_, _ = rival.release(ctx)
	}
	return nil
}

// hold acquires a key that is free, or becomes free when the lease of its holder has run out.
func (s *Scene) hold(ctx context.Context, r *remote, key string) (*remoteLease, error) {
	return r.acquire(ctx, attempt{Key: key, Wait: s.Lease + s.timeout, Insist: true})
}

// later fails unless the next holder has the larger fence, if the lock promises that.
func (s *Scene) later(before, next *remoteLease) error {
	if s.Promise.Fenced && next.Fence <= before.Fence {
		return fmt.Errorf("fence %d after %d", next.Fence, before.Fence)
	}
	return nil
}

// loss waits until h has ended without a release. It returns the time at which its process noticed, and the cause.
func (s *Scene) loss(ctx context.Context, h *remoteLease) (at time.Duration, why error, err error) {
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	answer, why := h.await(soon, h.lost)
	if answer.ID == 0 {
		return 0, nil, fmt.Errorf("no loss was signalled: %w", why)
	}
	same := make(chan reply, 1) // for the next call
	same <- answer
	h.lost = same
	return answer.To, why, nil
}

// follow tries until other has the key of h: a waiter may sleep for a while when the key is free. If the lock promises
// it, the holder of h must have noticed its loss first.
func (s *Scene) follow(ctx context.Context, h *remoteLease, other *remote) error {
	next, err := other.acquire(ctx, attempt{Key: h.Key, Wait: s.Lease + s.timeout, Try: true, Insist: true})
	if err != nil {
		return fmt.Errorf("the key did not become free: %w", err)
	}
	defer func() { _, _ = next.release(ctx) }()
	at, why, err := s.loss(ctx, h)
	switch {
	case err != nil:
		return err
	case !errors.Is(why, lock.ErrLost) || !errors.Is(why, lock.ErrExpired):
		return fmt.Errorf("lost because of %w, want ErrLost and ErrExpired", why)
	case at-h.From < s.Lease/4:
		return fmt.Errorf("lost %v into a lease of %v", at-h.From, s.Lease)
	case s.Promise.SignalsLoss && at > next.From:
		return fmt.Errorf("the loss was known %v after another had the key", at-next.From)
	}
	return s.later(h, next)
}

// overtake freezes a holder until another process has the key, and then thaws it.
func (s *Scene) overtake(ctx context.Context, one, other *remote) (late, next *remoteLease, err error) {
	key := FreshKey()
	if late, err = s.hold(ctx, one, key); err != nil {
		return nil, nil, err
	}
	if err := one.freeze(); err != nil {
		return nil, nil, err
	}
	next, err = s.hold(ctx, other, key)
	if err := errors.Join(err, one.thaw()); err != nil {
		return nil, nil, fmt.Errorf("a holder is frozen: %w", err)
	}
	return late, next, nil
}

func frozen(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	late, next, err := s.overtake(ctx, list[0], list[1])
	if err != nil {
		return err
	}
	_, why, err := s.loss(ctx, late)
	switch {
	case err != nil:
		return err
	case !errors.Is(why, lock.ErrLost):
		return fmt.Errorf("lost because of %w, want ErrLost", why)
	}
	_, _ = next.release(ctx)
	return s.later(late, next)
}

// owner lets a contender that lost the key release it, and then tries to acquire the key while the next holder has
// it.
func owner(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	return s.retry(ctx, func() error {
		late, next, err := s.overtake(ctx, list[0], list[1])
		if err != nil {
			return err
		}
		_, err = late.release(ctx)
		if !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) && !errors.Is(err, lock.ErrTaken) {
			return fmt.Errorf("its release: %v, want ErrLost because of ErrExpired or ErrTaken", err)
		}
		third, err := list[2].acquire(ctx, attempt{Key: late.Key, Wait: s.timeout, Try: true})
		if err == nil {
			_, _ = third.release(ctx)
			return fmt.Errorf(
				"a third had the key %v after the next holder, whose lease is %v", third.From-next.From,
				s.Lease,
			)
		}
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a third was told %w, want ErrHeld", err)
		}
		if _, err := next.release(ctx); err != nil {
			return fmt.Errorf("the next holder's release: %w", err)
		}
		return nil
	})
}

// evicted lets work take its own key away, as an operator does.
func evicted(ctx context.Context, s *Scene) error {
	l, err := s.here(calm)
	if err != nil {
		return err
	}
	var ended error
	observed := lock.Observe(l, lock.Events{
		Ended: func(_ context.Context, _ time.Duration, err error) { ended = err },
	})
	err = lock.Do(ctx, observed, s.Key, lock.Options{}, func(ctx context.Context, _ lock.Fence) error {
		_, err := lock.Evict(context.WithoutCancel(ctx), l, s.Key)
		return err
	})
	if !errors.Is(err, lock.ErrLost) || !errors.Is(ended, lock.ErrLost) {
		return fmt.Errorf("the caller was told %w, and the observer %w, want ErrLost", err, ended)
	}
	return nil
}

// taken lets an operator take a key away, and another have it.
func taken(ctx context.Context, s *Scene) error {
	l, err := s.here(s.Lease)
	if err != nil {
		return err
	}
	late, err := insist(ctx, l, s.Key, lock.Options{})
	if err != nil {
		return err
	}
	defer func() { _ = late.Release() }()
	fence, err := lock.Evict(ctx, l, s.Key)
	if err != nil {
		return err
	}
	next, err := once(ctx, s.Locker(ctx), s.Key)
	switch {
	case err != nil:
		return fmt.Errorf("after the eviction: %w", err)
	case fence <= late.Fence() || fence > next.Fence():
		return fmt.Errorf("fence %d of a holder, %d of its eviction, %d of the next", late.Fence(), fence, next.Fence())
	}
	if !s.Renews {
		return next.Release()
	}
	select {
	case <-late.Done():
	case <-time.After(s.Lease + s.timeout):
		return errors.New("the holder was not told that another has the key")
	}
	if why := late.Err(); !errors.Is(why, lock.ErrLost) {
		return fmt.Errorf("lost because of %w, want ErrLost", why)
	}
	return next.Release()
}

// unknown lets work end while a write is still under way. A slow store applies that write later: after a quarter of the
// lease, or after a moment if the lock is local to this process. The next holder must not get the key before the write,
// or it would read a value that is about to change.
func unknown(ctx context.Context, s *Scene) error {
	if !cluster(s.Harness) {
		return s.unknown(ctx, s.Locker(ctx), s.Locker(ctx), 100*time.Millisecond)
	}
	return s.retry(ctx, func() error {
		list, err := s.processes(ctx, 1, s.Lease)
		if err != nil {
			return err
		}
		l, err := s.here(s.Lease)
		if err != nil {
			return err
		}
		return s.unknown(ctx, l, list[0], s.Lease/4)
	})
}

func (s *Scene) unknown(ctx context.Context, l, other lock.Locker, slow time.Duration) error {
	key := FreshKey()
	var began time.Time
	err := lock.Do(ctx, l, key, lock.Options{}, func(ctx context.Context, f lock.Fence) error {
		began = time.Now()
		return unanswered(ctx, f)
	})
	if !errors.Is(err, lock.ErrOutcomeUnknown) || errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("work of unknown outcome: %w, want ErrOutcomeUnknown and no loss", err)
	}
	for applied := time.Now().Add(slow); time.Now().Before(applied); time.Sleep(time.Millisecond) { // polling
		lease, err := once(ctx, other, key)
		if err == nil && time.Now().Before(applied) {
			_ = lease.Release()
			return fmt.Errorf("the next one had the key after %v, before the write was done", time.Since(began))
		}
		if err != nil && !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("the next one was told %w, want ErrHeld", err)
		}
	}
	if !cluster(s.Harness) {
		return nil // whose lease has no end
	}
	soon, cancel := context.WithTimeout(ctx, s.Lease+s.timeout)
	defer cancel()
	if err := <-Come(soon, other, key, ""); err != nil {
		return fmt.Errorf("the key did not become free: %w", err)
	}
	return nil
}

// unanswered is work whose write was sent but not answered.
func unanswered(context.Context, lock.Fence) error { return lock.ErrOutcomeUnknown }
