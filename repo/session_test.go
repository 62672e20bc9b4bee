package repo_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/stack/stacktest"
)

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

// Whatever the defaults of the server are, sales one after the other lose nothing, and every sentence holds.
func TestHostileDefaults(t *testing.T) {
	server := stacktest.MariaDB(t)
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

func underHostileDefaults(t *testing.T, dsn string) {
	s := repo.NewMySQL(migrated(t, dsn))
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
	for _, line := range sentences {
		t.Run(line.name, func(t *testing.T) { line.check(t, s, service.SKU("sku-"+line.name)) })
	}
}
