package archive_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	"example.com/stock/service/archive"
	"example.com/stock/service/order"
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

const testWork = 20 * time.Second

// A place is where a ledger is.
type place struct{ store, address string }

// books are a Store that sells.
type books interface {
	archive.Store
	order.Batcher
}

// open opens the ledger. The caller must call closed.
func (p place) open() (s books, closed func() error, err error) {
	if p.store == "redis" {
		client := redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: []string{p.address}, ContextTimeoutEnabled: true,
			DialTimeout: 5 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
		})
		s, err = ledger.NewRedis(repo.NewRedis(client))
		return s, client.Close, err
	}
	db, err := repo.OpenMySQL(p.address, repo.Pool{Open: 10})
	if err != nil {
		return nil, nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, nil, err
	}
	return ledger.NewMySQL(repo.NewMySQL(db)), pool.Close, nil
}

// migrate brings the schema of dsn up.
func migrate(t testing.TB, dsn string) { repotest.Migrated(t, dsn) }

// A shop is a ledger of a test's own, and who sells from it.
type shop struct {
	archive.Store
	place
	*order.Service
	dir string // of the archive
}

// Both have methods of these names: those of the ledger are meant.
func (s *shop) Order(ctx context.Context, id string) (order.Order, error) {
	return s.Store.Order(ctx, id)
}

func (s *shop) Level(ctx context.Context, sku service.SKU) (order.Level, error) {
	return s.Store.Level(ctx, sku)
}

// always is a server that is up.
type always struct{}

func (always) Err() error          { return nil }
func (always) Up() context.Context { return context.Background() }

// eachStore runs the test with an empty ledger on either store.
func eachStore(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Parallel()
	for _, store := range []string{"mysql", "redis"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			p := place{store: store}
			if store == "redis" {
				p.address = stacktest.Redis(t).Addr
			} else {
				p.address = servers.FilledMariaDB(t, migrate)
			}
			books, closed, err := p.open()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = closed() })
			test(t, &shop{books, p, order.New(order.Config{
				Store: books, Needs: always{}, Work: testWork, KeepKey: time.Hour, Gone: order.GoneFrom(books),
			}), t.TempDir()})
		})
	}
}

func must[T any](t testing.TB) func(T, bool, error) T {
	return func(v T, _ bool, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func (s *shop) stock(t testing.TB, sku service.SKU, units int64) {
	t.Helper()
	must[order.Entry](t)(s.Set(t.Context(), "", sku, units, service.Condition{}))
}

func (s *shop) buy(t testing.TB, customer string, skus ...service.SKU) order.Order {
	t.Helper()
	return must[order.Order](t)(s.Place(t.Context(), "", customer, lines(skus)))
}

func lineSKUs(o order.Order) (skus []service.SKU) {
	for _, l := range o.Lines {
		skus = append(skus, l.SKU)
	}
	return skus
}

func lines(skus []service.SKU) (all []order.Line) {
	for _, sku := range skus {
		all = append(all, order.Line{SKU: sku, Quantity: 1})
	}
	return all
}

// relay records that all is delivered.
func (s *shop) relay(t testing.TB) {
	t.Helper()
	for {
		behind, err := s.Behind(t.Context(), "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(behind) == 0 {
			return
		}
		for _, d := range behind {
			level, err := s.Level(t.Context(), d.SKU)
			if err == nil {
				d.Number = level.Number
				err = s.Delivered(t.Context(), d, 1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// now is the time of the store.
func (s *shop) now(t testing.TB) time.Time {
	t.Helper()
	_, now, err := s.Archived(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// run archives what is there now, in small parts.
func (s *shop) run(t testing.TB, change ...func(*archive.Options)) (archive.Report, error) {
	t.Helper()
	o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store, Batch: 7}
	for _, c := range change {
		c(&o)
	}
	return archive.Run(t.Context(), s.Store, o)
}

func (s *shop) mustRun(t testing.TB, change ...func(*archive.Options)) archive.Report {
	t.Helper()
	done, err := s.run(t, change...)
	if err != nil {
		t.Fatalf("%v\n%+v", err, done)
	}
	return done
}

// whole fails the test unless archive and ledger are whole, and have so many orders together.
func (s *shop) whole(t testing.TB, orders int, dirs ...string) archive.Check {
	t.Helper()
	if dirs == nil {
		dirs = []string{s.dir}
	}
	check, err := archive.Verify(t.Context(), s.Store, dirs)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range check.Problems {
		t.Error(p)
	}
	left := 0
	for cursor := ""; ; {
		page, next, err := s.Old(t.Context(), s.now(t).Add(time.Hour), cursor, 1000)
		if err != nil {
			t.Fatal(err)
		}
		left += len(page.Orders)
		if cursor = next; cursor == "" {
			break
		}
	}
	if check.Orders+left != orders {
		t.Errorf("%d archived, %d left, want %d", check.Orders, left, orders)
	}
	return check
}

// history makes orders and reservations that end in every way: so many orders of "a" and "b", two reservations of "a"
// for each four, one of which becomes an order.
func (s *shop) history(t testing.TB, orders int) (made []order.Order) {
	t.Helper()
	ctx := t.Context()
	s.stock(t, "a", 1000)
	s.stock(t, "b", 1000)
	for i := range orders {
		o := s.buy(t, fmt.Sprint("c", i%5), []service.SKU{"a", "b"}[:1+i%2]...)
		if i%4 == 1 {
			o = must[order.Order](t)(s.CancelOrder(ctx, "", o.Customer, o.ID))
			one := must[order.Reservation](t)(s.Reserve(ctx, "", "ann", lines([]service.SKU{"a"}), time.Hour))
			must[order.Reservation](t)(s.CancelReservation(ctx, "", "ann", one.ID))
			two := must[order.Reservation](t)(s.Reserve(ctx, "", "ann", lines([]service.SKU{"a"}), time.Hour))
			made = append(made, must[order.Order](t)(s.Confirm(ctx, "", "ann", two.ID)))
		}
		made = append(made, o)
	}
	return made
}

// sells sells a unit at a time, 900 at most, for which history has stock, until the returned func is called, which
// returns how many.
func (s *shop) sells(t testing.TB, sku ...service.SKU) (stop func() int) {
	end := make(chan struct{})
	var running sync.WaitGroup
	sold := make([]int, 3)
	for i := range sold {
		running.Go(func() {
			for sold[i] < 300 {
				select {
				case <-end:
					return
				default:
				}
				_, _, err := s.Place(context.WithoutCancel(t.Context()), "", "busy", lines(sku))
				if err != nil {
					t.Error(err)
					return
				}
				sold[i]++
			}
		})
	}
	return func() (n int) {
		close(end)
		running.Wait()
		for _, one := range sold {
			n += one
		}
		return n
	}
}
