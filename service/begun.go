package service

import "context"

type begunKey struct{}

// Begin makes a ctx for what is left of a sale that has begun: it holds a lock for which others wait, or has read what
// it is about to write. A store that is overloaded refuses those who come, not those: to refuse them would waste what
// was done, and keep the others waiting.
func Begin(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

// HasBegun is for stores: whether ctx is one of [Begin].
func HasBegun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
