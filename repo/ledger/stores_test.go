package ledger_test

import (
	"slices"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
)

func TestLedger(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name string
		open func(t testing.TB) desk
	}{{"redis", redisDesk}, {"miniredis", miniDesk}, {"mysql", mysqlDesk}} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			store.open(t).keeps(t, slices.Concat(ledgerClauses, recordClauses, guardClauses, holdClauses))
		})
	}
}

func miniDesk(t testing.TB) desk { return deskOn(t, repo.NewRedis(dialRedis(t, repotest.MiniAddr(t)))) }

// deskOn returns the ledger on a [repo.Redis] or a [repo.MySQL].
func deskOn(t testing.TB, conn any) desk {
	if m, is := conn.(*repo.MySQL); is {
		return deskOnMySQL(m)
	}
	return deskOnRedis(t, conn.(*repo.Redis))
}

// shop returns the strategies' view of the same stock.
func (d desk) shop() shop { return repotest.ShopOn(d.conn) }
