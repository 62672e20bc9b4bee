package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// cuts counts the requests of an acquisition and its release, once for a free key and once for a held one. Then it
// repeats both for each request, once without the request and once without the reply. Last, each connection breaks at
// its first request.
func cuts(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	far, sound := list[0], list[1]
	var tries []func() error
	try := func(do func() error, what string, args ...any) {
		tries = append(tries, func() error {
			return s.retry(ctx, func() error {
				if err := do(); err != nil {
					return fmt.Errorf(what+": %w", append(args, err)...)
				}
				return nil
			})
		})
	}
	parts := map[wire.Action]string{wire.Cut: "all", wire.CutReply: "the reply"}
	for _, contended := range []bool{false, true} {
		n, err := s.requests(ctx, far, sound, contended)
		if err != nil {
			return err
		}
		s.seen += fmt.Sprintf("%d requests, contended %v; ", n, contended)
		for k := range min(n, 16) { // a lock that polls sends more
			for do, part := range parts {
				try(func() error {
					_, err := s.cut(ctx, far, sound, wire.Trap{Skip: k, Do: do}, contended)
					return err
				}, "%s of request %d of %d, contended %v, is lost", part, k+1, n, contended)
			}
		}
	}
	if s.Renews {
		for do, part := range parts {
			try(func() error { return s.cutRenewal(ctx, far, sound, do) }, "%s of a renewal is lost", part)
		}
	}
	try(func() error {
		_, err := s.cut(ctx, far, sound, wire.Trap{Do: wire.Cut, Every: true}, false)
		return err
	}, "every connection breaks")
	return parallel(len(tries), 4, func(i int) error { return tries[i]() })
}

// requests counts the requests of a new locker with a new key.
func (s *Scene) requests(ctx context.Context, far, sound *remote, contended bool) (int, error) {
	r, err := s.behind(ctx, far.process, s.Lease, 0)
	if err != nil {
		return 0, err
	}
	defer r.close(ctx)
	h, err := s.approach(ctx, r, sound, contended)
	if err == nil {
		_, err = h.release(ctx)
	}
	n := r.requests()
	if n == 0 && err == nil {
		err = errors.New("no request was seen")
	}
	if isLost(err) { // a busy computer
		err = nil
	}
	return n, err
}

// approach acquires a fresh key with r. If contended, sound holds the key until the traps have acted, or for a short
// time. After an error the lease has only the key.
func (s *Scene) approach(ctx context.Context, r *distant, sound *remote, contended bool) (*remoteLease, error) {
	none := &remoteLease{Key: FreshKey()}
	if !contended {
		h, err := r.acquire(ctx, attempt{Key: none.Key, Wait: s.timeout})
		return cmp.Or(h, none), err
	}
	before, err := s.hold(ctx, sound, none.Key)
	if err != nil {
		return none, err
	}
	wait, err := r.begin(attempt{Key: none.Key, Wait: s.Lease + s.timeout})
	if err != nil {
		return none, err
	}
	// The acquisition should begin to wait in this time; if it has not, the check is only weaker.
	moment, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for _, snare := range r.snares {
		select {
		case <-snare.Sprung():
		case <-moment.Done():
		}
	}
	if r.snares == nil {
		<-moment.Done()
	}
	if _, err := before.release(ctx); err != nil && !isLost(err) {
		return none, err
	}
	h, err := wait(ctx)
	return cmp.Or(h, none), err
}

// cut sets the trap on every connection, acquires, and releases if the acquisition succeeded, which is an error if the
// trap acts on every request. It returns the number of requests of the acquisition.
func (s *Scene) cut(ctx context.Context, far, sound *remote, trap wire.Trap, contended bool) (sent int, err error) {
	r, err := s.behind(ctx, far.process, s.Lease, 0, trap)
	if err != nil {
		return 0, err
	}
	defer r.close(ctx)
	h, err := s.approach(ctx, r, sound, contended)
	sent = r.requests()
	switch {
	case err == nil && trap.Every:
		return sent, errors.New("a lease without a server")
	case err != nil && (!errors.Is(err, lock.ErrDown) || !contended && errors.Is(err, lock.ErrHeld)):
		return sent, fmt.Errorf("acquire: %w, want ErrDown", err)
	case err != nil:
		return sent, s.freeAgain(ctx, r, sound, h)
	}
	rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: s.timeout, Try: true})
	if err := s.noRival(ctx, h, rival, err); err != nil {
		return sent, err
	}
	return sent, s.giveBack(ctx, r, sound, h)
}

// giveBack releases a lease that may have been cut meanwhile, and checks that the key becomes free.
func (s *Scene) giveBack(ctx context.Context, r *distant, sound *remote, h *remoteLease) error {
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !isLost(err) {
		return fmt.Errorf("release: %w, want none, ErrDown or ErrLost", err)
	}
	return s.freeAgain(ctx, r, sound, h)
}

// cutRenewal drops the first request after an acquisition, or breaks the connection if no request follows.
func (s *Scene) cutRenewal(ctx context.Context, far, sound *remote, action wire.Action) error {
	r, err := s.behind(ctx, far.process, s.Lease, 0)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	h, err := s.hold(ctx, r.remote, FreshKey())
	if err != nil {
		return err
	}
	for _, w := range r.wires {
		snare := w.Set(wire.Trap{Do: action})
		select {
		case <-snare.Sprung():
		case <-time.After(s.Lease):
			snare.Release()
			w.Cut()
		}
	}
	rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: s.Lease})
	if err := s.noRival(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h)
}

// noRival checks that a rival got no lease, unless the holder had lost the key. If the lock promises it, the
// holder must have noticed the loss.
func (s *Scene) noRival(ctx context.Context, h, rival *remoteLease, err error) error {
	if err != nil {
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a rival was told %w, want ErrHeld", err)
		}
		return nil
	}
	defer func() { _, _ = rival.release(ctx) }()
	at, _, err := s.loss(ctx, h)
	switch {
	case err != nil:
		return fmt.Errorf("a rival has the key: %w", err)
	case s.Promise.SignalsLoss && at > rival.From:
		return fmt.Errorf("the loss was known %v after a rival had the key", at-rival.From)
	}
	return s.later(h, rival)
}

// freeAgain checks that both the process that was cut off and an unharmed one can acquire the key within the lease. It
// first removes the remaining traps.
func (s *Scene) freeAgain(ctx context.Context, r *distant, sound *remote, h *remoteLease) error {
	for _, snare := range r.snares {
		snare.Release()
	}
	for _, who := range []*remote{r.remote, sound} {
		next, err := s.hold(ctx, who, h.Key)
		if err != nil {
			return fmt.Errorf("something was left behind: %w", err)
		}
		if err := s.later(h, next); err != nil {
			return err
		}
		_, err = next.release(ctx)
		if err != nil && !isLost(err) && !errors.Is(err, lock.ErrDown) { // a trap may spring late
			return fmt.Errorf("release afterwards: %w", err)
		}
	}
	return nil
}

// counted returns two processes, and the number of requests of an acquisition by the first and its release.
func (s *Scene) counted(ctx context.Context) (far, sound *remote, n int, err error) {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return nil, nil, 0, err
	}
	n, err = s.requests(ctx, list[0], list[1], false)
	s.seen = fmt.Sprintf("%d requests", n)
	return list[0], list[1], n, err
}

// late holds each request of an acquisition and its release back until the caller has given up, or the reply to it. The
// leases are an hour, so that nothing becomes free by itself.
func late(ctx context.Context, s *Scene) error {
	far, sound, n, err := s.counted(ctx)
	if err != nil {
		return err
	}
	actions := []wire.Action{wire.Hold, wire.HoldReply}
	return parallel(n*len(actions), 4, func(i int) error {
		trap := wire.Trap{Skip: i / len(actions), Do: actions[i%len(actions)]}
		err := s.retry(ctx, func() error { return s.comesLate(ctx, far.process, sound, trap) })
		if err != nil {
			return fmt.Errorf("request %d of %d comes late (its reply: %v): %w", trap.Skip+1, n,
				trap.Do == wire.HoldReply, err)
		}
		return nil
	})
}

// comesLate lets what is held back go as soon as the acquisition has failed. A driver looks for it until the server has
// answered twice, so on a busy computer it may come too late.
func (s *Scene) comesLate(ctx context.Context, p *process, sound *remote, trap wire.Trap) error {
	r, err := s.behind(ctx, p, time.Hour, 0, trap)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	key := FreshKey()
	h, err := r.acquire(ctx, attempt{Key: key, Wait: s.Lease / 2})
	if err == nil {
		_, _ = h.release(ctx) // this is what is late
	}
	for _, snare := range r.snares {
		snare.Release()
	}
	next, err := sound.acquire(ctx, attempt{Key: key, Wait: min(s.timeout, 10*time.Second), Insist: true})
	if err != nil {
		return fmt.Errorf("something was left behind: %w", err)
	}
	_, err = next.release(ctx)
	return err
}

// refusals refuses each request of an acquisition and its release in turn, and then all of them.
func refusals(ctx context.Context, s *Scene) error {
	far, sound, n, err := s.counted(ctx)
	if err != nil {
		return err
	}
	return parallel(n+1, 4, func(k int) error {
		trap := wire.Trap{Skip: k, Do: wire.Answer, Answer: s.Refuse}
		if k == n {
			trap.Skip, trap.Every = 0, true
		}
		return s.retry(ctx, func() error {
			sent, err := s.cut(ctx, far, sound, trap, false)
			if err == nil && trap.Every && sent > n {
				err = fmt.Errorf("%d requests of one acquisition", sent)
			}
			if err != nil {
				return fmt.Errorf("request %d of %d is refused (each of them: %v): %w", k+1, n, trap.Every, err)
			}
			return nil
		})
	})
}
