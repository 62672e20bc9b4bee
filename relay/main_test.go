package relay_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/lock"
	"example.com/stock/order"
	"example.com/stock/relay"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/stack/stacktest"
)

var servers stacktest.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	if os.Getenv(childMode) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(servers.Around(m))
}

// A shelf is a ledger on MariaDB that does nothing but number movements, and the dead letters of the real store.
type shelf struct {
	*repo.MySQL
	db *sql.DB
}

// openShelf opens the ledger at dsn. The first one makes it.
func openShelf(dsn string, create bool) (*shelf, error) {
	db, err := repo.OpenMySQL(dsn, repo.Pool{Open: 10})
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	s := &shelf{repo.NewMySQL(db), pool}
	if !create {
		return s, nil
	}
	migrator, err := repo.NewMigrator(db)
	if err == nil {
		_, err = migrator.Up(context.Background())
	}
	for _, table := range []string{
		"CREATE TABLE shelf (sku VARCHAR(64) COLLATE ascii_bin PRIMARY KEY, last BIGINT UNSIGNED NOT NULL," +
			" delivered BIGINT UNSIGNED NOT NULL DEFAULT 0, fence BIGINT UNSIGNED NOT NULL DEFAULT 0)",
		"CREATE TABLE shelf_rows (sku VARCHAR(64) COLLATE ascii_bin, number BIGINT UNSIGNED, body TEXT NOT NULL," +
			" PRIMARY KEY (sku, number))",
	} {
		if err == nil {
			_, err = pool.Exec(table)
		}
	}
	return s, err
}

func newShelf(t testing.TB) (*shelf, string) {
	t.Helper()
	dsn := servers.MariaDB(t)
	s, err := openShelf(dsn, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	return s, dsn
}

// sell adds n movements of a SKU.
func (s *shelf) sell(t testing.TB, sku service.SKU, n int) {
	t.Helper()
	for range n {
		tx, err := s.db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		_, err1 := tx.Exec("INSERT INTO shelf (sku, last) VALUES (?, 1) ON DUPLICATE KEY UPDATE last = last + 1", string(sku))
		m := order.Movement{
			SKU: sku, Kind: order.Sell, Available: -1, Sold: 1, Ref: "o-1", Customer: "ann", At: time.Now().UTC(),
		}
		err2 := tx.QueryRow("SELECT last FROM shelf WHERE sku = ?", string(sku)).Scan(&m.Number)
		body, err3 := json.Marshal(m)
		_, err4 := tx.Exec("INSERT INTO shelf_rows VALUES (?, ?, ?)", string(sku), m.Number, body)
		if err := errors.Join(err1, err2, err3, err4, tx.Commit()); err != nil {
			t.Fatal(err)
		}
	}
}

func (s *shelf) Behind(ctx context.Context, after service.SKU, limit int) (list []order.Delivered, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT sku, delivered FROM shelf WHERE sku > ? AND delivered < last"+
		" ORDER BY sku LIMIT ?", string(after), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var d order.Delivered
		if err := rows.Scan(&d.SKU, &d.Number); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

func (s *shelf) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	done, err := s.db.ExecContext(ctx, "UPDATE shelf SET delivered = GREATEST(delivered, ?), fence = ?"+
		" WHERE sku = ? AND fence <= ?", d.Number, fence, string(d.SKU), fence)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 && err == nil {
		var seen uint64
		if err := s.db.QueryRowContext(ctx, "SELECT fence FROM shelf WHERE sku = ?", string(d.SKU)).Scan(&seen); err != nil {
			return err
		}
		if seen > fence {
			return fmt.Errorf("%w (it had fence %d)", service.ErrStaleFence, seen)
		}
	}
	return err
}

func (s *shelf) Level(ctx context.Context, sku service.SKU) (level order.Level, err error) {
	err = s.db.QueryRowContext(ctx, "SELECT last FROM shelf WHERE sku = ?", string(sku)).Scan(&level.Number)
	return level, err
}

func (s *shelf) Movements(ctx context.Context, sku service.SKU, after uint64, limit int) ([]order.Movement, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT body FROM shelf_rows WHERE sku = ? AND number > ? ORDER BY number LIMIT ?",
		string(sku), after, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []order.Movement
	for rows.Next() {
		var body []byte
		var m order.Movement
		if err := errors.Join(rows.Scan(&body)); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, rows.Err()
}

func (s *shelf) SetPolicy(context.Context, service.SKU, int64) error { return nil }

// delivered returns how far a SKU was recorded as delivered.
func (s *shelf) delivered(t testing.TB, sku service.SKU) (n uint64) {
	t.Helper()
	row := s.db.QueryRow("SELECT delivered FROM shelf WHERE sku = ?", string(sku))
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// undelivered returns the number of movements that are not recorded as delivered.
func (s *shelf) undelivered(t testing.TB) (n int) {
	t.Helper()
	if err := s.db.QueryRow("SELECT COALESCE(SUM(last - delivered), 0) FROM shelf").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A latch is a lock in this process whose leases can be lost.
type latch struct {
	held  chan struct{}
	mu    sync.Mutex
	fence lock.Fence
	lost  context.CancelCauseFunc
}

func newLatch() *latch { return &latch{held: make(chan struct{}, 1)} }

func (l *latch) Acquire(ctx context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	select {
	case l.held <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", lock.ErrHeld, ctx.Err())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fence++
	lease, lost := lock.NewLease(key, l.fence, func(context.Context) error { <-l.held; return nil })
	l.lost = lost
	return lease, nil
}

// lose makes the present lease end.
func (l *latch) lose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost(lock.ErrTaken)
}

// A diary is a sink that notes the attempts and, in order, what was delivered.
type diary struct {
	relay.Sink // nil: what answer lets through is delivered
	answer     func(e relay.Event, attempt int) error

	mu       sync.Mutex
	attempts map[string]int
	got      map[service.SKU][]uint64
}

func (d *diary) Deliver(ctx context.Context, e relay.Event) error {
	d.mu.Lock()
	if d.attempts == nil {
		d.attempts, d.got = make(map[string]int), make(map[service.SKU][]uint64)
	}
	d.attempts[e.ID]++
	attempt := d.attempts[e.ID]
	d.mu.Unlock()
	if d.answer != nil {
		if err := d.answer(e, attempt); err != nil {
			return err
		}
	}
	if d.Sink != nil {
		if err := d.Sink.Deliver(ctx, e); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.got[e.Data.SKU] = append(d.got[e.Data.SKU], e.Data.Number)
	return nil
}

func (d *diary) of(sku service.SKU) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]uint64(nil), d.got[sku]...)
}

func (d *diary) tries(id string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts[id]
}

// quick returns a configuration with short pauses.
func quick(s *shelf, sink relay.Sink, l lock.Locker) relay.Config {
	return relay.Config{
		Outbox: s, Book: s, Dead: s, Sink: sink, Lock: l, Key: "relay#test", Owner: "test",
		Poll: 5 * time.Millisecond, Backoff: 5 * time.Millisecond, MaxBackoff: 50 * time.Millisecond, Attempts: 5,
	}
}

// start runs a relay until the test ends, or stop is called.
func start(t testing.TB, c relay.Config) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { relay.New(c).Run(ctx) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// emptied waits until the whole ledger is recorded as delivered.
func emptied(t testing.TB, s *shelf) {
	t.Helper()
	stacktest.Eventually(t, 60*time.Second, "all delivered", func() (bool, string) {
		n := s.undelivered(t)
		return n == 0, fmt.Sprint(n, " undelivered")
	})
}

func dialRedis(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(redisOptions(addr))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func redisOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1,
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	}
}

// numbers returns 1 to n.
func numbers(n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = uint64(i) + 1
	}
	return list
}
