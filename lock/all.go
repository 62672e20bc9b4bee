package lock

import (
	"context"
	"maps"
	"slices"
)

// All is [Do] for work that needs several keys at a time, such as the SKUs of a cart. It acquires them one after the
// other in sorted order, each once, so that two callers of All never wait for each other in a circle. Work gets the
// fence of each key.
//
// What holds of the keys together:
//   - If one cannot be had, those that are held already are released, and the error is Acquire's for that key.
//   - If the lease of one is lost, the ctx of work ends with that loss as its cause, and so does a wait for another key.
//   - If the outcome of work is unknown, all are left to run out. See Do.
//   - With o.TryOnce one key that another holds fails the call at once.
//
// It costs the round trips of Do for each key, one after the other, and a holder of many keys is in the way of many:
// while it waits for the last, it holds the rest. A cart of a hundred SKUs is better sold by one write without a lock.
//
// What All does not promise: an order among callers, beyond that of each key's lock; that a caller which holds some of
// the keys by Do, and asks for the others by All, does not wait in a circle. No keys: work is called at once.
func All(
	ctx context.Context, l Locker, keys []string, o Options,
	work func(ctx context.Context, fences map[string]Fence) error,
) error {
	sorted := slices.Compact(slices.Sorted(slices.Values(keys)))
	return all(ctx, l, sorted, o, make(map[string]Fence, len(sorted)), work)
}

// all holds the first key around the rest. So each loss ends everything inside, and the keys are released backwards.
func all(
	ctx context.Context, l Locker, keys []string, o Options, fences map[string]Fence,
	work func(context.Context, map[string]Fence) error,
) error {
	if len(keys) == 0 {
		return work(ctx, maps.Clone(fences))
	}
	inner := o
	if o.Wait != nil {
		// o.Wait does not know of the keys that are held here: their loss must end the wait for the next one, too.
		wait, cancel := context.WithCancelCause(o.Wait)
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		inner.Wait = wait
	}
	return Do(ctx, l, keys[0], inner, func(ctx context.Context, f Fence) error {
		fences[keys[0]] = f
		return all(ctx, l, keys[1:], o, fences, work)
	})
}
