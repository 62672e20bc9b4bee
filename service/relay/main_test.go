package relay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
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

// A shelf is the ledger on MariaDB, with its dead letters.
type shelf struct {
	*ledger.MySQL
	db *sql.DB
}

// openShelf opens the ledger at dsn.
func openShelf(dsn string) (*shelf, error) {
	db, err := repo.OpenMySQL(dsn, repo.Pool{Open: 10})
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	return &shelf{ledger.NewMySQL(repo.NewMySQL(db)), pool}, nil
}

// migrate brings the schema of dsn up.
func migrate(t testing.TB, dsn string) { repotest.Migrated(t, dsn) }

func newShelf(t testing.TB) (*shelf, string) {
	t.Helper()
	dsn := servers.FilledMariaDB(t, migrate)
	s, err := openShelf(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	return s, dsn
}

// receive adds n movements of a SKU, of one unit each.
func (s *shelf) receive(t testing.TB, sku service.SKU, n int) {
	t.Helper()
	for range n {
		about := order.About{SKUs: []service.SKU{sku}, Create: true}
		err := lock.ErrHeld
		for errors.Is(err, lock.ErrHeld) { // those that create SKUs side by side deadlock
			_, _, err = s.Step(t.Context(), about, func(state order.State) (order.Changes, error) {
				number := state.Stock[sku].Number + 1
				m := order.Movement{
					SKU: sku, Number: number, Kind: order.Adjust, Received: 1, Available: 1, At: state.Now,
				}
				return order.Changes{Movements: []order.Movement{m}}, nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// delivered returns how far a SKU was recorded as delivered.
func (s *shelf) delivered(t testing.TB, sku service.SKU) (n uint64) {
	t.Helper()
	row := s.db.QueryRow("SELECT COALESCE(MAX(number), 0) FROM deliveries WHERE sku = ?", string(sku))
	if err := row.Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// undelivered returns the number of movements that are not recorded as delivered.
func (s *shelf) undelivered(t testing.TB) (n int) {
	t.Helper()
	row := s.db.QueryRow("SELECT (SELECT COUNT(*) FROM movements) - (SELECT COALESCE(SUM(number), 0) FROM deliveries)")
	if err := row.Scan(&n); err != nil {
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
	attempts map[string]int // by SKU/number
	got      map[service.SKU][]uint64
}

func (d *diary) Deliver(ctx context.Context, e relay.Event) error {
	d.mu.Lock()
	if d.attempts == nil {
		d.attempts, d.got = make(map[string]int), make(map[service.SKU][]uint64)
	}
	place := fmt.Sprintf("%s/%d", e.Data.SKU, e.Data.Number)
	d.attempts[place]++
	attempt := d.attempts[place]
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

func (d *diary) tries(place string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attempts[place]
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
