package repo_test

import (
	"slices"
	"testing"

	"example.com/stock/repo"
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
	m := repo.NewMySQL(openMySQL(t, sharedMySQL(t)))
	return desk{books: m.Ledger(), Outbox: m.Ledger(), shop: m}
}

func redisDesk(t testing.TB) desk {
	return deskOf(t, repo.NewRedis(dialRedis(t, servers.Redis(t).Addr)))
}

func miniDesk(t testing.TB) desk { return deskOf(t, miniRedis(t).(*repo.Redis)) }

func deskOf(t testing.TB, r *repo.Redis) desk {
	t.Helper()
	ledger, err := r.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	return desk{books: ledger, Outbox: ledger, shop: r}
}

// A desk is a ledger, and the strategies' view of the same stock.
type desk struct {
	books
	orders.Outbox
	shop shop
}
