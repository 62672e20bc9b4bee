package repo_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/stack/wire"
)

// Two sales from segments draw their numbers and commit in the opposite order. A reader who goes on from a cursor
// misses neither: the page ends when what was under way has.
func TestCursorSkipsNoOrder(t *testing.T) {
	dsn := servers.MariaDB(t)
	s := repo.NewMySQL(migrated(t, dsn))
	const sku = service.SKU("sku")
	mustSet(t, s, sku, 100)
	gather(t, s, sku, 1, 10)
	gather(t, s, sku, 2, 10)
	sell := func(segment int) {
		t.Helper()
		if err := s.Swap(short(t), fromSegment(parts(t, s, sku), segment)); err != nil {
			t.Fatal(err)
		}
	}
	sell(2)

	pool, err := sql.Open("mysql", dsn+"?autocommit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	slow, err := pool.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Rollback()
	for _, statement := range []string{
		"UPDATE stock_segments SET quantity = quantity - 1, sold = sold + 1, version = version + 1" +
			" WHERE sku = 'sku' AND segment = 1",
		"INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance," +
			" request_id, fence, segment, created_at)" +
			" VALUES ('slow', 'sku', 1, 1, 1, 10, 9, 'none', '', '', 0, 1, UTC_TIMESTAMP(6))",
	} {
		if _, err := slow.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	sell(2)
	sell(2)

	// The last page has no cursor, and waits for nobody.
	if page, next, err := s.Orders(short(t), sku, "", 10); err != nil || len(page) != 3 || next != "" {
		t.Errorf("%d orders, next %q, %v; want 3, and no next", len(page), next, err)
	}
	type answer struct {
		page []service.Order
		next string
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		page, next, err := s.Orders(short(t), sku, "", 2)
		got <- answer{page, next, err}
	}()
	select {
	case <-got:
		t.Fatal("a page with a cursor ended while an order before it was being written")
	case <-time.After(100 * time.Millisecond):
	}
	if err := slow.Commit(); err != nil {
		t.Fatal(err)
	}
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	var ids []string
	for _, o := range a.page {
		ids = append(ids, o.ID)
	}
	for next := a.next; next != ""; {
		var page []service.Order
		if page, next, err = s.Orders(short(t), sku, next, 2); err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			ids = append(ids, o.ID)
		}
	}
	if len(ids) != 4 || strings.Count(strings.Join(ids, " "), "slow") != 1 || ids[1] != "slow" {
		t.Errorf("orders %v, want 4, and slow as the second", ids)
	}
	balanced(t, s, sku, 4)
}

// Sales of a whole stock commit in the order of their numbers: the row of the stock is locked from before the number is
// drawn.
func TestNumbersFollowCommits(t *testing.T) {
	p, broken, sound := proxied(t, "mysql")
	const sku = service.SKU("numbers")
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
	select {
	case err := <-second:
		t.Errorf("the second was sold before the first has committed: %v", err)
		second <- err
	case <-time.After(100 * time.Millisecond):
	}
	held.Release()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Fatal(err)
	}
	if all := allOrders(t, sound, sku); len(all) != 2 || all[0].ID != "first" {
		t.Errorf("orders %+v", all)
	}
}

// A COMMIT that the server ends by itself proves nothing: it may end when the transaction is in the binary log. Here it
// is held up by FLUSH TABLES WITH READ LOCK, and its time is over, or an operator ends it.
func TestCommitEndedByTheServer(t *testing.T) {
	for _, row := range []struct {
		how string
		end func(t *testing.T, admin *sql.DB)
	}{
		{"max_statement_time", func(*testing.T, *sql.DB) {}},
		{"KILL QUERY", func(t *testing.T, admin *sql.DB) {
			for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
				var id int64
				const busy = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO = 'COMMIT'"
				if admin.QueryRow(busy).Scan(&id) == nil {
					if _, err := admin.Exec(fmt.Sprint("KILL QUERY ", id)); err != nil {
						t.Error(err)
					}
					return
				}
			}
			t.Error("no COMMIT is seen")
		}},
	} {
		t.Run(row.how, func(t *testing.T) {
			dsn := servers.MariaDB(t)
			_, rest, _ := strings.Cut(dsn, "(")
			addr, _, _ := strings.Cut(rest, ")")
			p := newProxy(t, addr, wire.MySQL())
			sound := repo.NewMySQL(migrated(t, dsn))
			limit := "?max_statement_time=2"
			if row.how != "max_statement_time" {
				limit = ""
			}
			broken := repo.NewMySQL(openMySQL(t, strings.Replace(dsn, addr, p.Addr(), 1)+limit))
			stock := mustSet(t, sound, "sku", 100)

			admin, err := sql.Open("mysql", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer admin.Close()
			admin.SetMaxOpenConns(1)
			mustRead(t, broken, "sku") // its connection says "autocommit" first
			held := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
			ended := make(chan error, 1)
			go func() { ended <- broken.Write(short(t), order(stock)) }()
			<-held.Sprung()
			if _, err := admin.Exec("FLUSH TABLES WITH READ LOCK"); err != nil {
				t.Fatal(err)
			}
			held.Release()
			row.end(t, admin)
			err = <-ended
			if _, free := admin.Exec("UNLOCK TABLES"); free != nil {
				t.Fatal(free)
			}
			if !errors.Is(err, service.ErrOutcomeUnknown) {
				t.Errorf("error %v, want ErrOutcomeUnknown", err)
			}
			t.Log(err)
			balanced(t, sound, "sku", len(allOrders(t, sound, "sku")))
		})
	}
}
