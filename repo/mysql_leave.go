package repo

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const (
	// dismissTimeout bounds the attempt to take a waiter out of the server's queue.
	dismissTimeout = 500 * time.Millisecond
	// dismissLooks is how often the waiter is looked for: a question that was given up as it left may yet be on its way.
	dismissLooks = 3
	dismissPause = 10 * time.Millisecond
)

// waitLabel is a comment that tells a statement that may wait from all others: the server shows the text of what it is at. It costs the bytes.
func waitLabel() string { return fmt.Sprintf("/* stock waits %016x */", rand.Uint64()) }

// dismiss ends, from another connection, the wait of a client that has given up. The server does not see that it has gone before it
// would give it the row: the waiter would cost a connection and a thread for as long, innodb_lock_wait_timeout at most.
//
// Two round trips, if it is found at once. To end connections of one's own user needs no privilege. Where it fails, nothing is lost but
// that: the row goes to the next when the server finds nobody there.
func (m *MySQL) dismiss(ctx context.Context, label string) {
	pool, err := m.db.DB()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dismissTimeout)
	defer cancel()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for range dismissLooks {
		var id int64
		err := conn.QueryRowContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE ?", "%"+label).Scan(&id)
		if err == nil {
			_, _ = conn.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatInt(id, 10))
			return
		}
		pause := time.NewTimer(dismissPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}
