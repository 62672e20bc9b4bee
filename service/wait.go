package service

import "context"

// waitKey and begunKey are context keys. See "Time" in the comment of the package.
type (
	waitKey  struct{}
	begunKey struct{}
)

// WithWait returns work with wait, a ctx that bounds the queues in front of what is done with work: a call that is
// still in a queue when wait ends leaves it; a call that has got through goes on until work ends. It applies to every
// call in the scope of work, as a deadline does.
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

// Begin marks ctx as that of a sale which holds a lock for which others wait, or which has read what it is about to
// write. A store that is overloaded refuses new sales, but not those that have begun: their work would be lost, and the
// others would wait longer. The wait of ctx does not end such a call.
func Begin(ctx context.Context) context.Context { return context.WithValue(ctx, begunKey{}, true) }

// Begun is for stores. It reports whether ctx comes from Begin.
func Begun(ctx context.Context) bool { return ctx.Value(begunKey{}) != nil }
