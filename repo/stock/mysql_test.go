package stock_test

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// Why a server refuses is said in words that are safe to show, and nothing was written.
func TestMySQLRefuses(t *testing.T) {
	dsn := database(t)
	db := openMySQL(t, dsn)
	stock := mustSet(t, onMySQL(db), "sku", 100)
	run := func(statements ...string) {
		for _, statement := range statements {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
	}
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	run("CREATE OR REPLACE USER clerk@'127.0.0.1' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1",
		"GRANT ALL ON "+name+".* TO clerk@'127.0.0.1'")
	t.Cleanup(func() { run("DROP USER clerk@'127.0.0.1'") })
	clerk := strings.Replace(dsn, "root@", "clerk:secret@", 1)

	check := func(name, dsn, says string) {
		t.Run(name, func(t *testing.T) {
			err := onMySQL(openMySQL(t, dsn)).Write(short(t), order(stock))
			told := new(driver.DownError)
			if !errors.As(err, &told) || told.Reason != says {
				t.Errorf("error %v, want a DownError that says %q", err, says)
			}
		})
	}
	check("password", strings.Replace(clerk, "secret", "wrong", 1), "access-denied")
	check("database", strings.Replace(dsn, name, "nowhere", 1), "no-database")
	empty := repotest.Servers.MariaDB(t)
	check("schema", empty, "no-schema")
	holding(t, onMySQL(openMySQL(t, clerk)), "sku", func() {
		check("connections", clerk, "too-many-connections")
	})
	run("ALTER USER clerk@'127.0.0.1' WITH MAX_USER_CONNECTIONS 0", "SET GLOBAL read_only = 1")
	check("read-only", clerk, "read-only")
	run("SET GLOBAL read_only = 0")
	balanced(t, onMySQL(db), "sku", 1)

	if err := onMySQL(openMySQL(t, clerk)).
		Write(short(t), order(mustSet(t, onMySQL(db), "sku", 5))); err != nil {
		t.Errorf("with all in order: %v", err)
	}
}

func TestOpenMySQL(t *testing.T) {
	if _, err := repo.OpenMySQL("nonsense", repo.Pool{}); err == nil {
		t.Error("nonsense is no DSN")
	}
	// Nobody listens there. Opening must not notice.
	openMySQL(t, "stock:stock@tcp(127.0.0.1:1)/stock?parseTime=false&loc=Local")
}

// hostile are defaults of a server that an operator may have set for somebody else's program.
var hostile = map[string]string{
	"autocommit":       "autocommit = 0",
	"serializable":     "tx_isolation = 'SERIALIZABLE'",
	"read-uncommitted": "tx_isolation = 'READ-UNCOMMITTED'",
	"no-mode":          "sql_mode = ''",
	"ansi":             "sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
	"zone":             "time_zone = '+05:45'",
	"chain":            "completion_type = 1",
	"release":          "completion_type = 2",
	"limit":            "sql_select_limit = 1",
	"safe":             "sql_safe_updates = 1",
	"all": "autocommit = 0, tx_isolation = 'READ-UNCOMMITTED', sql_mode = 'ANSI_QUOTES', time_zone = '-11:00'," +
		" completion_type = 1",
}

// Whatever the defaults of the server are, sales one after the other lose nothing, and every clause holds.
func TestHostileDefaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	server := servertest.MariaDB(t)
	admin, err := sql.Open("mysql", strings.Replace(server, "/stock", "/", 1)+"?autocommit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	admin.SetMaxOpenConns(1)
	run := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	const kind = "autocommit = 1, tx_isolation = 'REPEATABLE-READ', sql_mode = DEFAULT, time_zone = 'SYSTEM'," +
		" completion_type = 0, sql_select_limit = DEFAULT, sql_safe_updates = 0"
	n := 0
	for name, defaults := range hostile {
		n++
		dsn := strings.Replace(server, "/stock", fmt.Sprint("/hostile_", n), 1)
		run(fmt.Sprint("CREATE DATABASE hostile_", n))
		run("SET GLOBAL " + strings.ReplaceAll(defaults, ", ", ", GLOBAL "))
		t.Run(name, func(t *testing.T) { underHostileDefaults(t, dsn) })
		run("SET GLOBAL " + strings.ReplaceAll(kind, ", ", ", GLOBAL "))
	}
	// What the server says to every connection first counts no more than its defaults.
	run("CREATE DATABASE hostile_init")
	run("CREATE USER clerk@'127.0.0.1' IDENTIFIED BY 'secret'") // init_connect is not for root
	run("GRANT ALL ON hostile_init.* TO clerk@'127.0.0.1'")
	run("SET GLOBAL init_connect = 'SET autocommit = 0, tx_isolation = ''READ-UNCOMMITTED'''")
	t.Run("init_connect", func(t *testing.T) {
		clerk := strings.NewReplacer("/stock", "/hostile_init", "root@", "clerk:secret@")
		underHostileDefaults(t, clerk.Replace(server))
	})
}

// On a server that ignores the character set of its clients every clause holds, and no text becomes SQL.
func TestAServerWithGBK(t *testing.T) {
	t.Parallel()
	s := onMySQL(migrated(t, servertest.GBK(t).URL))
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) { clause.check(t, s, service.SKU("sku-"+clause.name)) })
	}
	bystander := mustSet(t, s, "bystander", 7)
	for i, text := range servertest.Injections() {
		sku := service.SKU(fmt.Sprint("text-", i))
		o := order(mustSet(t, s, sku, 10))
		o.RequestID, o.Instance = text, text
		if err := s.Write(short(t), o); err != nil {
			t.Errorf("write an order with %q: %v", text, err)
			continue
		}
		if got := allOrders(t, s, sku); len(got) != 1 || got[0] != o {
			t.Errorf("the order with %q is read as %+v", text, got)
		}
		if got, err := s.Read(short(t), service.SKU(text)); err == nil {
			t.Errorf("SKU %q is read as %+v", text, got)
		}
	}
	want(t, s, bystander)
}

func underHostileDefaults(t *testing.T, dsn string) {
	s := onMySQL(migrated(t, dsn))
	const sku = service.SKU("hostile")
	mustSet(t, s, sku, 100)
	// Readers keep their connections: one that never ends its first snapshot reads what was true then.
	for n := range 18 {
		var together sync.WaitGroup
		for range 4 {
			together.Go(func() { mustRead(t, s, sku) })
		}
		together.Wait()
		stock := mustRead(t, s, sku)
		if stock.Quantity != 100-int64(n) {
			t.Fatalf("after %d sales %+v is read", n, stock)
		}
		o := order(stock)
		var err error
		switch n % 3 {
		case 0:
			err = s.Write(short(t), o)
		case 1:
			_, err = s.Deduct(short(t), o)
		case 2:
			err = s.Transact(short(t), sku, false, sellIn(sku, o.ID, nil))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	balanced(t, s, sku, 18)
	if late := time.Since(allOrders(t, s, sku)[0].CreatedAt); late > time.Hour || late < -time.Hour {
		t.Errorf("created %v ago", late)
	}
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			clause.check(t, s, service.SKU("sku-"+clause.name))
		})
	}
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
			" SELECT 'slow', 'sku', epoch, 1, 1, 10, 9, 'none', '', '', 0, 1, UTC_TIMESTAMP(6)" +
			" FROM stock WHERE sku = 'sku'",
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
	repotest.StatementWaits(t, dsn, "%LOCK IN SHARE MODE%")
	select {
	case <-got:
		t.Fatal("a page with a cursor ended while an order before it was being written")
	default:
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
	repotest.StatementWaits(t, repotest.SharedMySQL(t), "%"+string(sku)+"%")
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

// A COMMIT that the server ends by itself proves nothing: it may end when the transaction is in the binary log. Here it
// is held up by FLUSH TABLES WITH READ LOCK until its time is over. It is that of a Transact, which goes by itself: in
// the two packets of a sale the INSERT would be held up.
func TestCommitEndedByTheServer(t *testing.T) {
	dsn := database(t)
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	p := newProxy(t, addr, wire.MySQL())
	sound := onMySQL(openMySQL(t, dsn))
	broken := onMySQL(openMySQL(t, strings.Replace(dsn, addr, p.Addr(), 1)+"?max_statement_time=2"))
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
	go func() { ended <- ways(broken)["Transact"](short(t), order(stock)) }()
	<-held.Sprung()
	if _, err := admin.Exec("FLUSH TABLES WITH READ LOCK"); err != nil {
		t.Fatal(err)
	}
	held.Release()
	err = <-ended
	if _, free := admin.Exec("UNLOCK TABLES"); free != nil {
		t.Fatal(free)
	}
	if !errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("error %v, want ErrOutcomeUnknown", err)
	}
	balanced(t, sound, "sku", len(allOrders(t, sound, "sku")))
}
