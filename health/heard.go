package health

import "context"

// Heard makes a check that calls the server silent only if nobody else has heard of it either: one that answers others
// while it leaves a probe waiting is busy, or this process is, and no outage. answers counts what the server has
// answered to others; only its changes matter. An error that comes before the time of the check is over stays what it
// is.
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
