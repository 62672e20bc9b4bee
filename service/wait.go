package service

import "context"

// waitKey and begunKey are context keys. See "Time" in the package comment.
type (
	waitKey  struct{}
	begunKey struct{}
)

// A Wait makes the ctx that limits the queues of a sale. The caller must call done after the wait. Most sales without a
// lock find no queue, so only those that wait make it.
type Wait func() (wait context.Context, done context.CancelFunc)

// WithWait returns work with a Wait, for the queues on the way of each call that work is passed to: a call that is
// still in a queue when the wait ends leaves it; a call that has got through goes on until work ends.
func WithWait(work context.Context, wait Wait) context.Context {
	return context.WithValue(work, waitKey{}, wait)
}

// Waiting makes the wait of ctx. If ctx has none, or has begun (see [Begin]), it is ctx itself.
func Waiting(ctx context.Context) (wait context.Context, done context.CancelFunc) {
	if begin, has := ctx.Value(waitKey{}).(Wait); has && !Begun(ctx) {
		return begin()
	}
	return ctx, func() {}
}

// Begin marks ctx as that of a sale that holds a contended lock, or that has read what it is about to write. A store
// that is overloaded refuses new sales, but not these: their work would be lost, and other sales would wait longer.
// The end of the wait of ctx does not end such a call.
func Begin(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

// Begun is for stores. It reports whether ctx derives from Begin.
func Begun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
