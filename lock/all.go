package lock

import (
	"context"
	"maps"
	"slices"
)

// All is [Do] for work that needs several keys at a time, such as both accounts of a transfer. It acquires the keys one
// after the other in sorted order, each once, so that two callers of All cannot deadlock. Work gets the fence of each
// key. Without keys, All calls work at once.
//
//   - If a key cannot be acquired, All releases the keys that it already holds, and returns that key's error.
//   - If the lease of a key is lost, the ctx of work ends with that loss as its cause, and a wait for another key ends,
//     too.
//   - If the outcome of work is unknown, the leases of all keys are left to run out. See Do.
//   - With o.TryOnce the call fails at once if another holder has one of the keys.
//
// All costs the round trips of Do for each key, one after the other. While it waits for the last key, it holds all
// others, which delays many callers. For a hundred keys, prefer one write without a lock.
//
// All does not promise an order among callers, beyond that of each key's lock. A caller that holds some of the keys
// by Do, and acquires others by All, can deadlock.
func All(
	ctx context.Context, l Locker, keys []string, o Options,
	work func(ctx context.Context, fences map[string]Fence) error,
) error {
	o, waited, err := o.bounded(ctx)
	if err != nil {
		return err
	}
	defer waited()
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	return all(ctx, l, sorted, o, make(map[string]Fence, len(sorted)), work)
}

// all holds the first key while it calls itself for the rest. So the loss of a key ends the holds of all later keys,
// and the keys are released in reverse order.
func all(
	ctx context.Context, l Locker, keys []string, o Options, fences map[string]Fence,
	work func(context.Context, map[string]Fence) error,
) error {
	if len(keys) == 0 {
		return work(ctx, maps.Clone(fences))
	}
	// If a key that is already held is lost, the wait for the next one must end, too.
	wait, cancel := context.WithCancelCause(o.Wait)
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	inner := o
	inner.Wait = wait
	return Do(ctx, l, keys[0], inner, func(ctx context.Context, f Fence) error {
		fences[keys[0]] = f
		return all(ctx, l, keys[1:], o, fences, work)
	})
}
