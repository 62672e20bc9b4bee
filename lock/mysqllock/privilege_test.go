package mysqllock

import (
	"errors"
	"strings"
	"testing"

	"example.com/stock/lock"
)

// A user that may use the tables of the service and nothing else on the server can inspect and evict, but not take a connection from another
// user, and is told how that is mended.
func TestInspectAndEvictWithoutPrivileges(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		plain := ordinary(t, dsn)
		held, err := k.open(t, plain, 0).Acquire(t.Context(), "k", lock.Options{Owner: "app/1"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Release() }()
		other := k.open(t, plain, 0)
		if h := inspect(t, other, "k").Holder; h == nil || h.Who != "app/1" || h.Remaining <= 0 {
			t.Errorf("%+v, want app/1 and what it has left", h)
		}
		fence, err := lock.Evict(t.Context(), other, "k")
		if err != nil || fence <= held.Fence() {
			t.Errorf("evict: fence %d after %d, %v", fence, held.Fence(), err)
		}
		free(t, other, "k")
		foreign := acquire(t, k.open(t, dsn, 0), "k")
		fence, err = lock.Evict(t.Context(), other, "k")
		if k.name == table.name {
			if err != nil || fence <= foreign.Fence() {
				t.Errorf("evict another user: fence %d after %d, %v", fence, foreign.Fence(), err)
			}
			return
		}
		if !errors.Is(err, lock.ErrDown) || !strings.Contains(err.Error(), "CONNECTION ADMIN") {
			t.Errorf("evict another user: %v, want an error that names the privilege", err)
		}
		if h := inspect(t, other, "k").Holder; h == nil || h.Fence != foreign.Fence() {
			t.Errorf("%+v, want the holder that could not be evicted", h)
		}
	})
}

// ordinary is the DSN of a user who may use the tables of dsn's database, and nothing else on the server.
func ordinary(t testing.TB, dsn string) string {
	t.Helper()
	db := pool(t, dsn, 1)
	var name string
	if err := db.QueryRow("SELECT DATABASE()").Scan(&name); err != nil {
		t.Fatal(err)
	}
	user := "u" + name[max(0, len(name)-24):]
	execSQL(t, db, "CREATE USER "+user+" IDENTIFIED BY 'secret'")
	execSQL(t, db, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".* TO "+user)
	t.Cleanup(func() { execSQL(t, db, "DROP USER "+user) })
	_, address, _ := strings.Cut(dsn, "@")
	return user + ":secret@" + address
}
