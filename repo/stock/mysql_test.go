package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// Whatever an operator has set for somebody else's program, every clause holds: as defaults of the server, as what it
// executes first on each connection, and in the DSN.
func TestHostileDefaults(t *testing.T) {
	t.Parallel()
	dsn := servertest.MariaDB(t)
	admin := openMySQL(t, dsn)
	for _, statement := range []string{
		"SET GLOBAL autocommit = 0",
		"SET GLOBAL sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
		"SET GLOBAL time_zone = '-11:00'",
		"SET GLOBAL completion_type = 1",
		"SET GLOBAL sql_select_limit = 1",
		"SET GLOBAL sql_safe_updates = 1",
		"CREATE USER clerk@'127.0.0.1' IDENTIFIED BY 'secret'", // init_connect is not for root
		"GRANT ALL ON *.* TO clerk@'127.0.0.1'",
		"REVOKE SUPER, CONNECTION ADMIN ON *.* FROM clerk@'127.0.0.1'",
		"SET GLOBAL init_connect = 'SET autocommit = 0, unique_checks = 0'",
	} {
		if err := admin.Exec(statement).Error; err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	clerk := strings.Replace(dsn, "root@", "clerk:secret@", 1)
	s := onMySQL(migrated(t, clerk+"?tx_isolation='READ-UNCOMMITTED'&autocommit=0"))
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			clause.check(t, s, service.SKU("sku-"+clause.name))
		})
	}
	t.Run("variables", func(t *testing.T) {
		var isolation, zone string
		err := s.On(t.Context()).Raw("SELECT @@tx_isolation, @@time_zone").Row().Scan(&isolation, &zone)
		if err != nil || isolation != "REPEATABLE-READ" || zone != "+00:00" {
			t.Errorf("%s, %s, %v", isolation, zone, err)
		}
	})
}

// Setting the stock removes the orders of that SKU whose epoch is over and which are older than KeepOrders, and no
// others.
func TestSetForgetsOldOrders(t *testing.T) {
	t.Parallel()
	db := openMySQL(t, database(t))
	s := onMySQL(db)
	old := time.Now().Add(-stock.KeepOrders - time.Minute)
	sell := func(sku service.SKU, name string, at time.Time) {
		t.Helper()
		o := order(mustRead(t, s, sku))
		o.ID = name
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
		if err := db.Exec("UPDATE orders SET created_at = ? WHERE id = ?", at.UTC(), name).Error; err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		var got []string
		if err := db.Raw("SELECT id FROM orders ORDER BY id").Scan(&got).Error; err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("orders %v, want %v", got, want)
		}
	}
	mustSet(t, s, "sku", 100)
	mustSet(t, s, "other", 100)
	sell("sku", "1 old", old)
	sell("sku", "1 young", time.Now())
	sell("other", "other old", old)
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")
	sell("sku", "2 old", old)
	left("1 young", "2 old", "other old") // the epoch is not over
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")

	// More than are looked at at a time.
	err := db.Exec(
		"INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left,"+
			" strategy, instance, request_id, fence, created_at)"+
			" SELECT CONCAT('many-', seq), 'sku', 0, 1, 1, 1, 0, 'none', '', '', 0, ? FROM seq_1_to_2500",
		old,
	).Error
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")
}

// Two sales from segments draw their numbers and commit in the opposite order. A reader who goes on from a cursor
// misses neither: the page ends when what was under way has.
func TestCursorSkipsNoOrder(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s := onMySQL(openMySQL(t, dsn))
	const sku = service.SKU("sku")
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 10)
	refill(t, s, sku, 2, 10)
	slow := fromSegment(parts(t, s, sku), 1)
	sell := func() {
		t.Helper()
		if err := s.Swap(short(t), fromSegment(parts(t, s, sku), 2)); err != nil {
			t.Fatal(err)
		}
	}
	sell()
	under, commit, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- s.Transact(short(t), sku, false, func(ctx context.Context, tx service.Store) error {
			err := tx.Write(ctx, slow)
			close(under)
			<-commit
			return err
		})
	}()
	<-under
	sell()
	sell()

	// The last page has no cursor, and waits for nobody.
	if page, next, err := s.Orders(short(t), sku, "", 10); err != nil || len(page) != 3 || next != "" {
		t.Errorf("%d orders, next %q, %v; want 3, and no next", len(page), next, err)
	}
	got := make(chan []service.Order, 1)
	go func() { got <- allOrders(t, s, sku) }()
	statementsRun(t, dsn, "%LOCK IN SHARE MODE%", 1)
	close(commit)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if all := <-got; len(all) != 4 || all[1] != slow {
		t.Errorf("orders %+v, want 4, and the slow one as the second", all)
	}
	balanced(t, s, sku, 4)
}

// Sales of a whole stock commit in the order of their numbers: the row of the stock is locked from before the number is
// drawn.
func TestNumbersFollowCommits(t *testing.T) {
	t.Parallel()
	p, broken, sound := proxied(t, "mysql")
	sku := newSKU("numbers")
	mustSet(t, sound, sku, 100)
	mustRead(t, broken, sku) // its connection says "autocommit" first
	held := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
	first, second := make(chan error, 1), make(chan error, 1)
	sell := func(s shop, id string) error {
		o := order(service.Stock{SKU: sku})
		o.ID = id
		_, err := s.Deduct(short(t), o)
		return err
	}
	go func() { first <- sell(broken, "first") }()
	<-held.Sprung()
	go func() { second <- sell(sound, "second") }()
	statementsRun(t, repotest.SharedMySQL(t), "%"+string(sku)+"%", 1)
	select {
	case err := <-second:
		t.Errorf("the second was sold before the first has committed: %v", err)
		second <- err
	default:
	}
	held.Release()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Fatal(err)
	}
	if all := allOrders(t, sound, sku); len(all) != 2 || all[0].ID != "first" {
		t.Errorf("orders %+v", all)
	}
}
