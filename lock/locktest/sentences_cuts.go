package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/wire"
)

// cuts counts the requests of an acquisition with its release, of a free key and of one that is held, and then loses each of them
// once, and each reply once.
func cuts(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	far, sound := list[0], list[1]
	var tries []func() error
	for _, contended := range []bool{false, true} {
		n, err := s.requests(ctx, far, sound, contended)
		if err != nil {
			return err
		}
		s.seen += fmt.Sprintf("%d requests, contended %v; ", n, contended)
		for k := range min(n, 16) { // who polls makes more
			for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
				tries = append(tries, func() error {
					return s.mostly(ctx, 2, func() error {
						if err := s.cut(ctx, far, sound, wire.Trap{Skip: k, Do: do}, contended); err != nil {
							return fmt.Errorf("%s of request %d of %d, contended %v, is lost: %w", part(do), k+1, n, contended, err)
						}
						return nil
					})
				})
			}
		}
	}
	for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
		if s.Renews {
			tries = append(tries, func() error {
				return s.mostly(ctx, 3, func() error {
					if err := s.cutRenewal(ctx, far, sound, do); err != nil {
						return fmt.Errorf("%s of a renewal is lost: %w", part(do), err)
					}
					return nil
				})
			})
		}
	}
	return abreast(len(tries), func(i int) error { return tries[i]() })
}

func part(do wire.Action) string {
	if do == wire.Cut {
		return "all"
	}
	return "the reply"
}

// requests is how many a locker makes that is used for the first time, with a key that is.
func (s *Scene) requests(ctx context.Context, far, sound *remote, contended bool) (int, error) {
	wires, at, err := s.wired()
	if err != nil {
		return 0, err
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return 0, err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := s.approach(ctx, r, sound, contended, nil)
	if err == nil {
		_, err = h.release(ctx)
	}
	n := 0
	for _, w := range wires {
		n = max(n, w.Count(toServer))
	}
	if n == 0 && err == nil {
		err = errors.New("no request was seen")
	}
	if over(err) { // a busy computer
		err = nil
	}
	return n, err
}

// approach acquires a fresh key with r. If contended, sound holds it until one of snares has sprung, or for a moment.
func (s *Scene) approach(ctx context.Context, r, sound *remote, contended bool, snares []*wire.Snare) (*held, error) {
	key := FreshKey()
	if !contended {
		h, err := r.get(ctx, grip{Key: key, Wait: s.patience})
		return orKey(h, key), err
	}
	before, err := sound.get(ctx, grip{Key: key, Wait: s.patience})
	if err != nil {
		return orKey(nil, key), err
	}
	wait, _, err := r.take(grip{Key: key, Wait: s.Lease + s.patience})
	if err != nil {
		return orKey(nil, key), err
	}
	moment := time.After(200 * time.Millisecond) // in which it begins to wait; if it has not, the sentence is only weaker
	for _, snare := range snares {
		select {
		case <-snare.Sprung():
		case <-moment:
		}
	}
	if snares == nil {
		<-moment
	}
	if _, err := before.release(ctx); err != nil && !over(err) {
		return orKey(nil, key), err
	}
	h, err := wait(ctx)
	return orKey(h, key), err
}

// orKey is h, or what stands for the key if there is none.
func orKey(h *held, key string) *held {
	if h == nil {
		return &held{Key: key}
	}
	return h
}

// cut sets the trap on every wire, acquires, and releases if that succeeded.
func (s *Scene) cut(ctx context.Context, far, sound *remote, trap wire.Trap, contended bool) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	var snares []*wire.Snare
	for _, w := range wires {
		snares = append(snares, w.Set(trap))
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := s.approach(ctx, r, sound, contended, snares)
	if err != nil {
		if !errors.Is(err, lock.ErrDown) {
			return fmt.Errorf("acquire: %w, want ErrDown", err)
		}
		return s.freeAgain(ctx, r, sound, h, snares)
	}
	rival, err := sound.get(ctx, grip{Key: h.Key, Wait: s.patience, Try: true})
	if err := s.alone(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h, snares)
}

// giveBack releases what may have been cut meanwhile, and wants it to be free.
func (s *Scene) giveBack(ctx context.Context, r, sound *remote, h *held, snares []*wire.Snare) error {
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !over(err) {
		return fmt.Errorf("release: %w, want none, ErrDown or ErrLost", err)
	}
	return s.freeAgain(ctx, r, sound, h, snares)
}

// cutRenewal loses the first request after an acquisition, or breaks the connection if there is none.
func (s *Scene) cutRenewal(ctx context.Context, far, sound *remote, action wire.Action) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := r.get(ctx, grip{Key: FreshKey(), Wait: s.patience})
	if err != nil {
		return err
	}
	for _, w := range wires {
		snare := w.Set(wire.Trap{Do: action})
		select {
		case <-snare.Sprung():
		case <-time.After(s.Lease):
			snare.Release()
			w.Cut()
		}
	}
	rival, err := sound.get(ctx, grip{Key: h.Key, Wait: s.Lease})
	if err := s.alone(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h, nil)
}

// alone wants that a rival got nothing, unless the holder had lost the key, and knew if that is promised.
func (s *Scene) alone(ctx context.Context, h, rival *held, err error) error {
	if err != nil {
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a rival was told %w, want ErrHeld", err)
		}
		return nil
	}
	defer func() { _, _ = rival.release(ctx) }()
	soon, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	at, _, err := h.loss(soon)
	switch {
	case err != nil:
		return fmt.Errorf("a rival has the key: %w", err)
	case s.Promise.SignalsLoss && at > rival.From:
		return fmt.Errorf("the loss was known %v after a rival had the key", at-rival.From)
	case s.Promise.Fenced && rival.Fence <= h.Fence:
		return fmt.Errorf("fence %d after %d", rival.Fence, h.Fence)
	}
	return nil
}

// freeAgain wants that the process that was cut and a sound one can have the key within the lease. Traps that have not sprung are
// taken away.
func (s *Scene) freeAgain(ctx context.Context, r, sound *remote, h *held, snares []*wire.Snare) error {
	for _, snare := range snares {
		snare.Release()
	}
	for _, who := range []*remote{r, sound} {
		next, err := who.get(ctx, grip{Key: h.Key, Wait: s.Lease + s.patience, Insist: true})
		if err != nil {
			return fmt.Errorf("something was left behind: %w", err)
		}
		if s.Promise.Fenced && next.Fence <= h.Fence {
			return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
		}
		if _, err := next.release(ctx); err != nil && !over(err) && !errors.Is(err, lock.ErrDown) { // one may spring late
			return fmt.Errorf("release afterwards: %w", err)
		}
	}
	return nil
}
