// Package mysqllock holds three locks on MySQL and MariaDB: a row with a time limit, a row lock, and a named lock.
//
// The pool that they are given should be theirs alone, with timeout and interpolateParams=true in its DSN and without
// readTimeout: two of them keep a connection for as long as they hold or wait, and in a pool shared with the store the waiters
// would take the connections that the holder needs to write. The tables come with the schema of the service (stock migrate up).
//
// All three are locks of one server, the master. A fail-over ends those that live in a connection, and may forget the row of the
// other if replication had not come that far. In a cluster with several masters none of them excludes anybody on another one.
package mysqllock

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"

	"example.com/stock/lock"
)

const (
	// span is the distance of two fences of a key. See [lock.FenceRanger].
	span = 64
	// microseconds is the server's clock as a number, in UTC because local time goes back once a year.
	microseconds = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"

	// answerTimeout bounds a statement that waits for nobody.
	answerTimeout = 1500 * time.Millisecond
	// grace is how long after the end of a wait the answer to a statement that is on its way is still listened for.
	grace = 250 * time.Millisecond
	// collisions is how often a statement that lost to another by deadlock is repeated.
	collisions = 5
)

// linger is for a statement asked under ctx: it outlasts ctx by the time that the answer takes, up to a bound. To abandon a
// statement the driver has to break the connection, and what the server did, or will do, is then unknown. The answer is nearly
// always there in a millisecond.
func linger(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
	stop := context.AfterFunc(ctx, func() {
		_ = lock.Sleep(late, grace)
		cancel()
	})
	return late, func() { stop(); cancel() }
}

// connect takes a connection. Nothing has been asked yet, so it ends with ctx, and it does not wait for long: a server that hangs
// accepts connections and greets nobody.
func connect(ctx context.Context, db *sql.DB) (*sql.Conn, error) {
	soon, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	conn, err := db.Conn(soon)
	if err != nil && soon.Err() != nil && ctx.Err() == nil {
		return nil, &lock.DownError{
			Server: "mysql",
			Reason: "no connection within " + answerTimeout.String() + ": it does not answer, or the pool of the locks is too small",
		}
	}
	return conn, err
}

// jitter is between half of d and all of it.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func def(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}
