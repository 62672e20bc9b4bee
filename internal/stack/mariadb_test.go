package stack_test

import (
	"os"
	"path/filepath"
	"testing"

	"example.com/stock/internal/stack"
)

// The second MariaDB of a user starts from a copy of the first one's system tables, and is a server of its own.
func TestSystemTablesAreMadeOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	first := need(t, start(t, stack.Options{Want: []stack.Kind{stack.MySQL}}), "mysql")
	if err := mysqlPut(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(cache, "stock", "*")); len(kept) != 1 {
		t.Fatalf("in the cache folder: %q, expected one copy", kept)
	}

	broken := t.TempDir()
	for _, name := range []string{"mariadb-install-db", "mysql_install_db"} {
		if err := os.WriteFile(filepath.Join(broken, name), []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", broken+string(os.PathListSeparator)+os.Getenv("PATH"))
	second := need(t, start(t, stack.Options{Want: []stack.Kind{stack.MySQL}}), "mysql")
	if found, err := mysqlGet(t.Context(), second); found {
		t.Errorf("the second server has what was written to the first one (%v)", err)
	}
}
