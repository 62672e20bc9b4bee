package repair_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/repair"
)

var servers stacktest.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	goleak.VerifyTestMain(servers.Around(m))
}

// books are a repair.Store that sells.
type books interface {
	repair.Store
	order.Archivable
	order.Store
}

// A shop is a ledger of a test's own, and who sells from it.
type shop struct {
	store books
	*order.Service
	redis redis.UniversalClient // nil: MySQL
	db    *sql.DB               // nil: Redis
}

var here = repair.Place{Name: "here", Origin: "1"}

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
			s := &shop{}
			if store == "redis" {
				s.onRedis(t)
			} else {
				s.onMySQL(t)
			}
			s.Service = order.New(order.Config{
				Store: s.store, Needs: always{}, Work: 20 * time.Second, KeepKey: time.Hour,
			})
			test(t, s)
		})
	}
}

func (s *shop) onRedis(t *testing.T) {
	s.redis = repotest.DialRedis(t, stacktest.Redis(t).Addr)
	l, err := ledger.NewRedis(repo.NewRedis(s.redis))
	if err != nil {
		t.Fatal(err)
	}
	s.store = l
}

func (s *shop) onMySQL(t *testing.T) {
	db := repotest.OpenMySQL(t, servers.FilledMariaDB(t, migrate))
	var err error
	if s.db, err = db.DB(); err != nil {
		t.Fatal(err)
	}
	s.store = ledger.NewMySQL(repo.NewMySQL(db))
}

// migrate brings the schema of dsn up.
func migrate(t testing.TB, dsn string) { repotest.Migrated(t, dsn) }

func must[T any](t testing.TB) func(T, bool, error) T {
	return func(v T, _ bool, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func line(sku service.SKU, n int64) []order.Line { return []order.Line{{SKU: sku, Quantity: n}} }

// add changes a counter by hand. MySQL and Redis have the same names for them.
func (s *shop) add(t *testing.T, sku service.SKU, field string, n int64) {
	t.Helper()
	if s.redis != nil {
		if err := s.redis.HIncrBy(t.Context(), "stock:{"+string(sku)+"}", field, n).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	s.byHand(t, fmt.Sprintf("UPDATE stock SET %s = %s + ? WHERE sku = ?", field, field), n, string(sku))
}

// byHand runs a statement that the constraints forbid, as in a schema that was restored without them.
func (s *shop) byHand(t *testing.T, statement string, args ...any) {
	t.Helper()
	conn, err := s.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range []struct {
		text string
		args []any
	}{
		{"SET SESSION check_constraint_checks = 0", nil},
		{statement, args},
		{"SET SESSION check_constraint_checks = 1", nil},
	} {
		if _, err := conn.ExecContext(t.Context(), q.text, q.args...); err != nil {
			t.Fatal(err)
		}
	}
}

// forget removes the record of an order or a reservation.
func (s *shop) forget(t *testing.T, table, id string) {
	t.Helper()
	if s.redis != nil {
		key := map[string]string{"customer_orders": "ledger:order:", "reservations": "ledger:reservation:"}[table] + id
		if err := s.redis.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := s.db.ExecContext(t.Context(), "DELETE FROM "+table+" WHERE id = ?", id); err != nil {
		t.Fatal(err)
	}
}

// conjure writes the record of an order that moved nothing.
func (s *shop) conjure(t *testing.T, sku service.SKU, units int64) {
	t.Helper()
	o := order.Order{
		ID: uuid.Must(uuid.NewV7()).String(), Customer: "eve", Lines: line(sku, units), State: order.Placed,
		CreatedAt: time.Now().UTC(),
	}
	var err error
	if s.redis != nil {
		err = s.redis.Set(t.Context(), "ledger:order:"+o.ID, repo.Encode(o), 0).Err()
	} else {
		_, err = s.db.ExecContext(t.Context(),
			"INSERT INTO customer_orders VALUES (?, 'eve', ?, 'placed', '', 0, ?, NULL)",
			o.ID, repo.Encode(o.Lines), o.CreatedAt)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// lose removes a movement.
func (s *shop) lose(t *testing.T, sku service.SKU, number uint64) {
	t.Helper()
	if s.redis != nil {
		key := "stock:{" + string(sku) + "}:movements"
		if err := s.redis.XDel(t.Context(), key, fmt.Sprint(number, "-0")).Err(); err != nil {
			t.Fatal(err)
		}
		return
	}
	_, err := s.db.ExecContext(t.Context(), "DELETE FROM movements WHERE sku = ? AND number = ?", string(sku), number)
	if err != nil {
		t.Fatal(err)
	}
}

// plan makes a plan, and reads it as from its file.
func (s *shop) plan(t *testing.T, skus ...service.SKU) repair.Plan {
	t.Helper()
	p, err := repair.Make(t.Context(), s.store, here, skus)
	if err != nil {
		t.Fatal(err)
	}
	again, err := repair.Parse(file(t, p))
	if err != nil || again.ID != p.ID {
		t.Fatalf("%v, plan %s was read as %s", err, p.ID, again.ID)
	}
	return again
}

// apply applies a plan, and returns the state of each SKU.
func (s *shop) apply(t *testing.T, p repair.Plan, chosen map[service.SKU]string) map[service.SKU]string {
	t.Helper()
	states := map[service.SKU]string{}
	err := repair.Apply(t.Context(), s.store, here, p, chosen, func(r repair.Result) { states[r.SKU] = r.State })
	if err != nil {
		t.Fatal(err)
	}
	return states
}
