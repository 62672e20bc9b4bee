package service

import "context"

// waitKey and begunKey are context keys. See "Time" in the package comment.
type (
	waitKey  struct{}
	begunKey struct{}
)

// WithWait returns work with wait, a ctx that limits the queues on the way of each call that work is passed to: a
// call that is still in a queue when wait ends leaves it; a call that has got through goes on until work ends.
func WithWait(work, wait context.Context) context.Context {
	return context.WithValue(work, waitKey{}, wait)
}

// WaitOf returns the wait of ctx, or ctx itself if it has none.
func WaitOf(ctx context.Context) context.Context {
	if wait, ok := ctx.Value(waitKey{}).(context.Context); ok {
		return wait
	}
	return ctx
}

// Begin marks ctx as that of a sale that holds a contended lock, or that has read what it is about to write. A store
// that is overloaded refuses new sales, but not these: their work would be lost, and other sales would wait longer.
// The end of the wait of ctx does not end such a call.
func Begin(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

// Begun is for stores. It reports whether ctx derives from Begin.
func Begun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
