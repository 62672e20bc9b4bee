package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// inspect lets one caller hold keys that a careless lock would take for one, or for a part of another, and lets a
// second one look at them.
func inspect(ctx context.Context, s *Scene) error {
	var lockers [2]lock.Locker
	for i := range lockers {
		var err error
		if lockers[i], err = s.here(calm); err != nil {
			return err
		}
	}
	if _, err := lock.Inspect(ctx, lockers[0], s.Key); errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	filled := s.Key + strings.Repeat("x", 900)
	for _, keys := range [][]string{
		{"k", "K", "k "},
		{"é", "e", "É"},
		{"%", "%25", "{%}"},
		{"{}", "}{", "%7B"},
		{"k", "k}:fence", "k}:queue"},
		{"*", "a b", "a\r\nb"},
		{"\x00", "\xff\xfe", "日本"},
		{"'; DROP TABLE locks; --", "/", "k/"},
		{filled, filled[:300], filled[:299]},
		{filled[:46], filled[:64], filled[:65]}, // where servers shorten names
	} {
		for i, key := range keys {
			keys[i] = s.Key + strings.TrimPrefix(key, s.Key)
		}
		err := s.retry(ctx, func() error { return s.inspect(ctx, lockers[0], lockers[1], keys) })
		if err != nil {
			return fmt.Errorf("%.80q: %w", keys, err)
		}
	}
	if listed, err := listOf(ctx, lockers[1], s.Key); err != nil || len(listed) > 0 {
		return fmt.Errorf("listed when all are free: %.80q (%w)", listed, err)
	}
	nowhere := make([]string, len(s.Servers)) // where no server listens
	for i := range nowhere {
		nowhere[i] = fmt.Sprint("127.0.0.1:", i+1)
	}
	l, closer, err := s.Open(nowhere, calm)
	if err != nil {
		return err
	}
	defer func() { _ = closer() }()
	_, inspected := lock.Inspect(ctx, l, s.Key)
	_, listed := listOf(ctx, l, s.Key)
	if !errors.Is(inspected, lock.ErrDown) || !errors.Is(listed, lock.ErrDown) {
		return fmt.Errorf("without a server: %w and %w, want ErrDown", inspected, listed)
	}
	return nil
}

// inspect holds keys, looks at them one by one and together, and looks again when they are free.
func (s *Scene) inspect(ctx context.Context, holder, other lock.Locker, keys []string) (err error) {
	owners, leases := []string{"app-1/request-7", "é */ '?%\n2", ""}, make([]*lock.Lease, len(keys))
	for i, key := range keys {
		o := lock.Options{TryOnce: true, Owner: owners[i]}
		if leases[i], err = holder.Acquire(ctx, key, o); err != nil {
			return err
		}
		defer func() { _ = leases[i].Release() }()
		_, err := once(ctx, other, key)
		held, known := errors.AsType[*lock.HeldError](err)
		if !errors.Is(err, lock.ErrHeld) || known && held.Holder != "" && held.Holder != o.Owner {
			return fmt.Errorf("another is told %w, want the holder %q or nobody", err, o.Owner)
		}
		state, err := lock.Inspect(ctx, other, key)
		if err := cmp.Or(err, s.shows(state, leases[i], o.Owner)); err != nil {
			return err
		}
	}
	asked := append(slices.Clone(keys), s.Key+"-free")
	all, err := lock.InspectAll(ctx, other, asked)
	if err != nil || len(all) != len(asked) || all[len(keys)].Holder != nil {
		return fmt.Errorf("of these and a free key: %+v (%w)", all, err)
	}
	for i, lease := range leases {
		if err := s.shows(all[i], lease, owners[i]); err != nil {
			return fmt.Errorf("together: %w", err)
		}
	}
	// A server that shortens a long name cannot list it.
	long := func(key string) bool { return len(key) > 255 }
	listed, err := listOf(ctx, other, s.Key)
	listed, want := slices.DeleteFunc(listed, long), slices.DeleteFunc(slices.Sorted(slices.Values(keys)), long)
	if err != nil || !slices.Equal(listed, want) {
		return fmt.Errorf("listed: %.80q (%w)", listed, err)
	}
	for _, lease := range leases {
		if err := lease.Release(); err != nil {
			return err
		}
	}
	all, err = lock.InspectAll(ctx, other, keys)
	if err != nil || slices.ContainsFunc(all, func(s lock.State) bool { return s.Holder != nil }) {
		return fmt.Errorf("all are free: %+v (%w)", all, err)
	}
	return nil
}

// shows returns an error unless the state of a key that has just been acquired shows its holder.
func (s *Scene) shows(state lock.State, lease *lock.Lease, owner string) error {
	h := state.Holder
	if h == nil {
		return fmt.Errorf("%.80q is held, but by nobody when inspected", lease.Key())
	}
	age := time.Since(h.Since) // of a lock without a fence it may be unknown
	if h.Who != owner || h.Fence != lease.Fence() || s.Promise.Fenced && (age < -time.Second || age > s.timeout) ||
		(h.Remaining > 0) == lease.Until().IsZero() || h.Remaining > calm {
		return fmt.Errorf("%.80q was acquired by %q with fence %d for %v, but inspected it is %+v",
			lease.Key(), owner, lease.Fence(), calm, *h)
	}
	return nil
}

// listOf returns the listed keys that begin with prefix, in order.
func listOf(ctx context.Context, l lock.Locker, prefix string) ([]string, error) {
	lister, lists := l.(driver.Lister)
	if !lists {
		return nil, errors.ErrUnsupported
	}
	keys, err := lister.Keys(ctx)
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) })
	slices.Sort(keys)
	return keys, err
}
