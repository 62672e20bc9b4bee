package ledger_test

import (
	"slices"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	orders "example.com/stock/service/order"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name string
		open func(t testing.TB) desk
	}{{"redis", redisDesk}, {"miniredis", miniDesk}, {"mysql", mysqlDesk}} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			d := store.open(t)
			for _, clause := range slices.Concat(ledgerClauses, recordClauses, guardClauses) {
				t.Run(clause.name, func(t *testing.T) {
					t.Parallel()
					clause.check(t, d, newSKU(clause.name))
					if t.Failed() {
						t.Log("broken:", clause.text)
					}
				})
			}
		})
	}
}

func mysqlDesk(t testing.TB) desk {
	return deskOn(t, repo.NewMySQL(openMySQL(t, sharedMySQL(t))))
}

func redisDesk(t testing.TB) desk {
	return deskOn(t, repo.NewRedis(dialRedis(t, repotest.Servers.Redis(t).Addr)))
}

func miniDesk(t testing.TB) desk { return deskOn(t, repo.NewRedis(dialRedis(t, repotest.MiniAddr(t)))) }

// deskOn returns the ledger on a [repo.Redis] or a [repo.MySQL].
func deskOn(t testing.TB, conn any) desk {
	t.Helper()
	if m, is := conn.(*repo.MySQL); is {
		books := ledger.NewMySQL(m)
		return desk{books, books, conn}
	}
	books, err := ledger.NewRedis(conn.(*repo.Redis))
	if err != nil {
		t.Fatal(err)
	}
	return desk{books, books, conn}
}

// A desk is a ledger, and the connection that it is on.
type desk struct {
	books
	orders.Outbox
	conn any
}

// shop returns the strategies' view of the same stock.
func (d desk) shop() shop { return repotest.ShopOn(d.conn) }
