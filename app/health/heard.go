package health

import "context"

// Heard returns a check that ignores a timeout of check if the server answered other clients of this process in the
// meantime. Then the server or this process is busy, and there is no outage. answers returns the number of replies to
// the other clients so far. Errors other than timeouts are returned unchanged.
func Heard(check func(context.Context) error, answers func() uint64) func(context.Context) error {
	return func(ctx context.Context) error {
		before := answers()
		err := check(ctx)
		if err != nil && (slow(err) || ctx.Err() != nil) && answers() != before {
			return nil
		}
		return err
	}
}
