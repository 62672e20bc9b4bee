package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/stack/wire"
)

const (
	toServer = wire.ToServer
	toClient = wire.ToClient
)

// storming lets three processes contend and looks at what they recorded.
func storming(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, calm)
	if err != nil {
		return err
	}
	history, err := rage(ctx, list, storm{
		Keys: []string{s.Key}, Workers: 4, Rounds: 25, Hold: 200 * time.Microsecond, Limit: 5 * time.Second,
	})
	if err != nil {
		return err
	}
	return overlaps(history, s.Promise.Fenced)
}

// rage lets every process run the storm, and returns all holds.
func rage(ctx context.Context, list []*remote, what storm) ([]Hold, error) {
	var mu sync.Mutex
	var history []Hold
	var failed []error
	var all sync.WaitGroup
	for _, r := range list {
		all.Go(func() {
			_, answer, err := r.call(ctx, request{Do: "storm", Locker: r.locker, Storm: what})
			mu.Lock()
			defer mu.Unlock()
			history, failed = append(history, answer.Holds...), append(failed, err)
		})
	}
	all.Wait()
	return history, errors.Join(failed...)
}

// renewal holds for two and a half leases, in which another process waits in vain.
func renewal(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 3, func() error {
		key := FreshKey()
		h, err := list[0].get(ctx, grip{Key: key, Wait: s.patience, Insist: true})
		if err != nil {
			return err
		}
		next, err := list[1].get(ctx, grip{Key: key, Wait: 5 * s.Lease / 2})
		if err == nil {
			_, _ = next.release(ctx)
			_, _ = h.release(ctx)
			return fmt.Errorf("another had the key after %v of a lease of %v", next.From-h.From, s.Lease)
		}
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("who waited was told %w, want ErrHeld", err)
		}
		if _, err := h.release(ctx); err != nil {
			return fmt.Errorf("the lease was lost: %w", err)
		}
		return nil
	})
}

// expiry holds for longer than a lease that is not renewed.
func expiry(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 5, func() error { return s.outlive(ctx, list[0], list[1], FreshKey()) })
}

// cutOff does the same with a lease that would be renewed, if the network let it.
func cutOff(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 1, s.Lease)
	if err != nil {
		return err
	}
	return s.mostly(ctx, 5, func() error {
		wires, at, err := s.wired()
		if err != nil {
			return err
		}
		far, err := s.process(ctx, at, s.Lease)
		if err != nil {
			return err
		}
		key := FreshKey()
		h, err := far.get(ctx, grip{Key: key, Wait: s.patience, Insist: true})
		if err != nil {
			return err
		}
		for _, w := range wires {
			w.Silence(toServer, toClient)
		}
		defer func() {
			for _, w := range wires {
				w.Silence()
			}
		}()
		return s.follow(ctx, h, list[0])
	})
}

// outlive lets one process hold a key until another has it.
func (s *Scene) outlive(ctx context.Context, one, other *remote, key string) error {
	h, err := one.get(ctx, grip{Key: key, Wait: s.patience, Insist: true})
	if err != nil {
		return err
	}
	return s.follow(ctx, h, other)
}

// follow waits with other until the key of h has gone over, and wants that the holder of h knew first, if that is promised.
func (s *Scene) follow(ctx context.Context, h *held, other *remote) error {
	next, err := other.get(ctx, grip{Key: h.Key, Wait: s.Lease + s.patience, Insist: true})
	if err != nil {
		return fmt.Errorf("the key did not become free: %w", err)
	}
	defer func() { _, _ = next.release(ctx) }()
	soon, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	at, why, err := h.loss(soon)
	switch {
	case err != nil:
		return err
	case !errors.Is(why, lock.ErrLost) || !errors.Is(why, lock.ErrExpired):
		return fmt.Errorf("lost because of %w, want ErrLost and ErrExpired", why)
	case at-h.From < s.Lease/4:
		return fmt.Errorf("lost %v into a lease of %v", at-h.From, s.Lease)
	case s.Promise.SignalsLoss && at > next.From:
		return fmt.Errorf("the loss was known %v after another had the key", at-next.From)
	case s.Promise.Fenced && next.Fence <= h.Fence:
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	return nil
}
