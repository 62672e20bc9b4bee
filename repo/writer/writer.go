package writer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
	"example.com/stock/repo"
)

// A cluster with several writers resolves conflicts between nodes at COMMIT. If a SKU is sold through two nodes at
// once, conflicts cost retries at best; at worst a client gets a confirmation of a sale that exists on no node
// (docs/adr/0013-one-writer.md). So all instances sell through one node, the writer:
//
//   - Row 1 of the table writers names the writer. Its number is a fencing token, which grows when another node
//     becomes the writer.
//   - Triggers on the tables of stock refuse changes on every other node. A change locks row 1 for share until its
//     transaction ends. Another node becomes the writer by a transaction that replaces row 1, and the cluster aborts
//     every transaction that has the row locked: after that, no transaction that began earlier can commit.
//   - Row 2 counts the health probes of the instances that sell through the writer. An instance at another node
//     makes its node the writer if the count has not changed for silence, by the clock of that instance.
//   - The new writer refuses sales for the time grace, in which the other nodes apply the replacement.
//
// Sales may be refused while the writer changes. A node that needs longer than grace to apply the changes that it has
// received may accept sales even after the new writer accepts them. Then conflicts are found at COMMIT, which
// [repo.MySQL] sends in a separate packet on such a cluster, so that the outcome is known.
const (
	silence = 5 * time.Second
	grace   = 2 * time.Second
	// beat is how long the count of row 2 may be unchanged before an instance adds one to it.
	beat = time.Second
)

// A Guard lets an instance sell only through the writer. Its methods are safe for concurrent use.
type Guard struct {
	db *sql.DB

	mu   sync.Mutex
	seen observation
}

// NewGuard returns a Guard for the server of db. It uses one connection at a time.
func NewGuard(db *sql.DB) *Guard { return &Guard{db: db} }

// An observation is the state of the table that an instance has read, and the time of its last change, by the
// instance's own clock.
type observation struct {
	fence, beats uint64
	since        time.Time
}

// rows are the contents of the table, as one node sees them.
type rows struct {
	writer       string
	fence, beats uint64
	early        bool // the writer still refuses sales
	here         string
}

// An action is what an instance does after it has read the table.
type action int

const (
	nothing action = iota
	count          // add one to row 2
	replace        // make this node the writer
)

// decide returns what to do about r at now, and the next observation.
func decide(r rows, s observation, now time.Time) (action, observation) {
	if r.fence != s.fence || r.beats != s.beats { // a fence is never 0, so the first observation differs, too
		s = observation{r.fence, r.beats, now}
	}
	unchanged := now.Sub(s.since)
	switch {
	case r.writer == r.here && unchanged >= beat:
		return count, s
	case r.writer != r.here && unchanged >= silence:
		return replace, s
	}
	return nothing, s
}

const createTable = "CREATE TABLE IF NOT EXISTS writers (id TINYINT UNSIGNED NOT NULL, node VARCHAR(300) NOT NULL," +
	" number BIGINT UNSIGNED NOT NULL, since DATETIME(6) NOT NULL, PRIMARY KEY (id)) ENGINE = InnoDB"

// here is the SQL for the name of the node that runs it.
const here = "CONCAT(@@hostname, ':', @@port)"

// Check returns nil if the node may sell. Otherwise the error matches lock.ErrDown. If another node is the writer, the
// error also matches lock.ErrSecondWriter and names it. If there is no writer, or no instance of the writer is alive,
// the node becomes the writer and sells after grace. Each health probe calls Check. It takes one round trip, and
// another one each second.
func (g *Guard) Check(ctx context.Context) error {
	const doing = "look for the writer"
	conn, err := g.db.Conn(ctx) // one connection, because behind a proxy two connections may lead to two nodes
	if err != nil {
		return repo.MySQLFault(ctx, doing, err)
	}
	defer conn.Close()
	r, err := g.read(ctx, conn)
	if err != nil {
		return repo.MySQLFault(ctx, doing, err)
	}
	g.mu.Lock()
	do, seen := decide(r, g.seen, time.Now())
	g.seen = seen
	g.mu.Unlock()
	switch do {
	case count:
		// If two instances count at the same moment, one may get a deadlock error. The count has changed anyway.
		_, err := conn.ExecContext(ctx, "UPDATE writers SET number = number + 1, since = UTC_TIMESTAMP(6)"+
			" WHERE id = 2 AND number = ?", r.beats)
		if err != nil && !repo.Deadlocked(err) {
			return repo.MySQLFault(ctx, doing, err)
		}
	case replace:
		_, err := conn.ExecContext(ctx, "UPDATE writers SET node = "+here+", number = number + 1,"+
			" since = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE id = 1 AND number = ?",
			grace.Microseconds(), r.fence)
		if err != nil {
			return repo.MySQLFault(ctx, doing, err)
		}
		return lock.NewDown("mysql", "becomes-writer", "node", r.here)
	}
	switch {
	case r.writer != r.here:
		return repo.SecondWriter(r.writer)
	case r.early:
		return lock.NewDown("mysql", "becomes-writer", "node", r.here)
	}
	return nil
}

// read reads the table. If it does not exist, read creates it, with this node as the writer.
func (g *Guard) read(ctx context.Context, conn *sql.Conn) (r rows, err error) {
	query := func() error {
		return conn.QueryRowContext(ctx, "SELECT w.node, w.number, w.since > UTC_TIMESTAMP(6), b.number, "+here+
			" FROM writers w, writers b WHERE w.id = 1 AND b.id = 2").
			Scan(&r.writer, &r.fence, &r.early, &r.beats, &r.here)
	}
	err = query()
	if mysqlerr.Number(err) != mysqlerr.NoSuchTable && !errors.Is(err, sql.ErrNoRows) {
		return r, err
	}
	if _, err := conn.ExecContext(ctx, createTable); err != nil {
		return r, err
	}
	if _, err := conn.ExecContext(ctx, "INSERT IGNORE INTO writers VALUES (1, "+here+", 1,"+
		" UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND), (2, '', 0, UTC_TIMESTAMP(6))",
		grace.Microseconds()); err != nil {
		return r, err
	}
	return r, query()
}

// Exists reports whether the schema has the table of a writer. It may have been copied with a cluster's data.
func (g *Guard) Exists(ctx context.Context) (exists bool, err error) {
	const query = "SELECT COUNT(*) > 0 FROM information_schema.TABLES" +
		" WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'writers'"
	if err := g.db.QueryRowContext(ctx, query).Scan(&exists); err != nil {
		return false, repo.MySQLFault(ctx, "look for the table of the writer", err)
	}
	return exists, nil
}

// guarded are the changes that only the writer makes, each with its trigger. Every sale is one of them.
var guarded = [...]struct{ trigger, event, table string }{
	{"one_writer_stock_UPDATE", "UPDATE", "stock"},
	{"one_writer_stock_INSERT", "INSERT", "stock"},
	{"one_writer_stock_segments_UPDATE", "UPDATE", "stock_segments"},
}

// Install creates the triggers, which need the tables of stock and the privilege TRIGGER. If the binary log is on,
// MySQL also requires log_bin_trust_function_creators = 1. If the triggers exist, Install takes one round trip.
func (g *Guard) Install(ctx context.Context) error {
	const doing = "create the triggers of the writer"
	var there int
	err := g.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.TRIGGERS"+
		" WHERE TRIGGER_SCHEMA = DATABASE() AND TRIGGER_NAME LIKE 'one\\_writer\\_%'").Scan(&there)
	if err != nil {
		return repo.MySQLFault(ctx, doing, err)
	}
	if there == len(guarded) {
		return nil
	}
	for _, change := range guarded {
		_, err := g.db.ExecContext(ctx, "CREATE TRIGGER IF NOT EXISTS "+change.trigger+
			" BEFORE "+change.event+" ON "+change.table+" FOR EACH ROW BEGIN"+
			" DECLARE refusal VARCHAR(300);"+
			" SET refusal = (SELECT CONCAT('"+repo.SecondWriterPrefix+"', node) FROM writers WHERE id = 1"+
			" AND (node <> "+here+" OR since > UTC_TIMESTAMP(6)) LOCK IN SHARE MODE);"+
			" IF refusal IS NOT NULL THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refusal; END IF;"+
			" END")
		switch mysqlerr.Number(err) {
		case mysqlerr.TableAccess, mysqlerr.NoSuper, mysqlerr.SuperNeeded:
			return fmt.Errorf("%s: %w: %w", doing, lock.NewDown("mysql", "no-trigger"), err)
		}
		if err != nil {
			return repo.MySQLFault(ctx, doing, err)
		}
	}
	return nil
}

// Remove removes the triggers. Then every node accepts sales.
func (g *Guard) Remove(ctx context.Context) error {
	for _, change := range guarded {
		if _, err := g.db.ExecContext(ctx, "DROP TRIGGER IF EXISTS "+change.trigger); err != nil {
			return repo.MySQLFault(ctx, "remove the triggers of the writer", err)
		}
	}
	return nil
}
