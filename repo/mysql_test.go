package repo_test

import (
	"errors"
	"strings"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// Why a server refuses is said in words that are safe to show, and nothing was written.
func TestMySQLRefuses(t *testing.T) {
	dsn := servers.MariaDB(t)
	db := migrated(t, dsn)
	stock := mustSet(t, repo.NewMySQL(db), "sku", 100)
	run := func(statements ...string) {
		for _, statement := range statements {
			if err := db.Exec(statement).Error; err != nil {
				t.Fatal(err)
			}
		}
	}
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	run("CREATE OR REPLACE USER clerk@'127.0.0.1' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 1", "GRANT ALL ON "+name+".* TO clerk@'127.0.0.1'")
	t.Cleanup(func() { run("DROP USER clerk@'127.0.0.1'") })
	clerk := strings.Replace(dsn, "root@", "clerk:secret@", 1)

	check := func(name, dsn, says string) {
		t.Run(name, func(t *testing.T) {
			err := repo.NewMySQL(openMySQL(t, dsn)).Write(short(t), order(stock))
			told := new(lock.DownError)
			if !errors.As(err, &told) || !strings.Contains(told.Reason, says) {
				t.Errorf("error %v, want a DownError that says %q", err, says)
			}
		})
	}
	check("password", strings.Replace(clerk, "secret", "wrong", 1), "access denied")
	check("database", strings.Replace(dsn, name, "nowhere", 1), "the database does not exist")
	empty := servers.MariaDB(t)
	check("schema", empty, "run stock migrate up")
	holding(t, repo.NewMySQL(openMySQL(t, clerk)), "sku", func() { check("connections", clerk, "too many connections") })
	run("ALTER USER clerk@'127.0.0.1' WITH MAX_USER_CONNECTIONS 0", "SET GLOBAL read_only = 1")
	check("read-only", clerk, "read-only")
	run("SET GLOBAL read_only = 0")
	balanced(t, repo.NewMySQL(db), "sku", 1)

	if err := repo.NewMySQL(openMySQL(t, clerk)).Write(short(t), order(mustSet(t, repo.NewMySQL(db), "sku", 5))); err != nil {
		t.Errorf("with all in order: %v", err)
	}
}

func TestMySQLRoundTrips(t *testing.T) {
	p, s, sound := proxied(t, "mysql")
	const sku = service.SKU("trips")
	mustSet(t, s, sku, 100)
	trips(t, p, true, "Set", 6, func() error { _, err := s.Set(short(t), sku, 10); return err })
	trips(t, p, true, "Seed", 4, func() error { return s.Seed(short(t), sku, 10) })
	trips(t, p, true, "Read", 1, func() error { _, err := s.Read(short(t), sku); return err })
	trips(t, p, true, "Write", 4, func() error { return s.Write(short(t), order(mustRead(t, sound, sku))) })
	trips(t, p, true, "Swap", 4, func() error { return s.Swap(short(t), order(mustRead(t, sound, sku))) })
	trips(t, p, true, "Deduct", 5, func() error { _, err := s.Deduct(short(t), order(service.Stock{SKU: sku})); return err })
	trips(t, p, true, "Transact", 5, func() error { return s.(*repo.MySQL).Transact(short(t), sku, false, sellIn(sku, "x", nil)) })
	raise := func(segment int, fence uint64) func() error {
		return func() error { return s.(service.Fencer).Raise(short(t), sku, segment, "none", fence) }
	}
	trips(t, p, true, "Raise", 3, raise(0, 1))
	trips(t, p, true, "Raise of a segment", 5, raise(1, 2))
	trips(t, p, true, "Orders", 2, func() error { _, _, err := s.Orders(short(t), sku, "", 1); return err })
}

func TestOpenMySQL(t *testing.T) {
	if _, err := repo.OpenMySQL("nonsense", repo.Pool{}); err == nil {
		t.Error("nonsense is no DSN")
	}
	// Nobody listens there. Opening must not notice.
	openMySQL(t, "stock:stock@tcp(127.0.0.1:1)/stock?parseTime=false&loc=Local")
}
