package health

import "context"

// Heard changes check so that it fails as silent only if the server was silent to all clients of this process. A server
// that answers others while it leaves a probe waiting is busy, or this process is, and that is no outage. answers
// counts what the server has answered to others; only its changes matter. An error that comes before the time of the
// check is over is returned as it is.
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
