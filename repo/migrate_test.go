package repo_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pressly/goose/v3"
	"gorm.io/gorm"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

func TestMain(m *testing.M) { repotest.Main(m) }

func migrator(t *testing.T, db *gorm.DB) *repo.Migrator {
	t.Helper()
	m, err := repo.NewMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checks wants Check to say that, or nothing.
func checks(t *testing.T, m *repo.Migrator, says string) {
	t.Helper()
	err := m.Check(repotest.Short(t))
	switch {
	case says == "" && err != nil:
		t.Errorf("check: %v", err)
	case says != "" && (!errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), says)):
		t.Errorf("check: %v, want ErrDown with %q", err, says)
	}
}

// applied is how many steps Status reports as applied, of how many.
func applied(t *testing.T, m *repo.Migrator) (n, of int) {
	t.Helper()
	all, err := m.Status(repotest.Short(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range all {
		if !step.AppliedAt.IsZero() {
			n++
		}
	}
	return n, len(all)
}

// steps are the names of all steps, the first first.
func steps(t *testing.T) (names []string) {
	t.Helper()
	files, err := os.ReadDir("migrations")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		names = append(names, file.Name())
	}
	return names
}

// sells wants the stock to be usable.
func sells(t *testing.T, db *gorm.DB) {
	t.Helper()
	if _, err := stock.NewMySQL(repo.NewMySQL(db)).Set(repotest.Short(t), "sku", 5, service.Condition{}); err != nil {
		t.Error(err)
	}
}

func TestMigrateUpDownUp(t *testing.T) {
	t.Parallel()
	all := steps(t)
	last := len(all)
	version, err := strconv.Atoi(all[last-1][:5])
	if err != nil {
		t.Fatal(err)
	}
	db := repotest.OpenMySQL(t, repotest.Servers.MariaDB(t))
	m := migrator(t, db)
	checks(t, m, "no-schema")
	if n, of := applied(t, m); n != 0 || of != last {
		t.Errorf("%d of %d applied, want 0 of %d", n, of, last)
	}
	checks(t, m, fmt.Sprintf("wrong-schema (has=0, wants=%d)", version))

	up, err := m.Up(repotest.Short(t))
	if err != nil || len(up) != last || up[0].Name != all[0] {
		t.Fatalf("up: %+v, %v", up, err)
	}
	checks(t, m, "")
	sells(t, db)

	down := append([]string{""}, all...)
	slices.Reverse(down)
	for _, name := range down {
		undone, err := m.Down(repotest.Short(t))
		if err != nil || (undone == nil) != (name == "") || undone != nil && undone.Name != name {
			t.Fatalf("down: %+v, %v; want %q", undone, err, name)
		}
		checks(t, m, "-schema")
	}
	if up, err = m.Up(repotest.Short(t)); err != nil || len(up) != last {
		t.Fatalf("up again: %+v, %v", up, err)
	}
	if up, err = m.Up(repotest.Short(t)); err != nil || len(up) != 0 {
		t.Errorf("up once more: %+v, %v; want nothing to do", up, err)
	}
	if n, _ := applied(t, m); n != last {
		t.Errorf("%d applied, want %d", n, last)
	}
	sells(t, db)

	// A newer schema is fine: in a rolling update the old instances go on.
	newer := "INSERT INTO goose_db_version (version_id, is_applied) VALUES (?, 1)"
	if err := db.Exec(newer, version+1).Error; err != nil {
		t.Fatal(err)
	}
	checks(t, m, "")
	if up, err = m.Up(repotest.Short(t)); err != nil || len(up) != 0 {
		t.Errorf("up, with a newer schema: %+v, %v; want nothing to do", up, err)
	}
	if undone, err := m.Down(repotest.Short(t)); undone != nil || !errors.Is(err, goose.ErrVersionNotFound) {
		t.Errorf("down, with a newer schema: %+v, %v", undone, err)
	}
}

// Three instances start at the same moment. Each has its own pool.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	want := len(steps(t))
	for range 3 {
		dsn := repotest.Servers.MariaDB(t)
		var all sync.WaitGroup
		var mu sync.Mutex
		steps := 0
		for range 3 {
			m := migrator(t, repotest.OpenMySQL(t, dsn))
			all.Go(func() {
				done, err := m.Up(repotest.Short(t))
				mu.Lock()
				defer mu.Unlock()
				steps += len(done)
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if steps != want {
			t.Errorf("%d steps were applied, want %d", steps, want)
		}
	}
}

func TestMigrateNowhere(t *testing.T) {
	t.Parallel()
	m := migrator(t, repotest.OpenMySQL(t, "root@tcp(127.0.0.1:1)/stock"))
	checks(t, m, "refused")
	if _, err := m.Up(repotest.Short(t)); !errors.Is(err, lock.ErrDown) {
		t.Errorf("up: %v, want ErrDown", err)
	}
}
