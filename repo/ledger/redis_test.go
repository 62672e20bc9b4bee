package ledger_test

import (
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
)

func redisDesk(t testing.TB) desk {
	return deskOnRedis(t, repo.NewRedis(repotest.DialRedis(t, repotest.Servers.Redis(t).Addr)))
}

func deskOnRedis(t testing.TB, r *repo.Redis) desk {
	t.Helper()
	books, err := ledger.NewRedis(r)
	if err != nil {
		t.Fatal(err)
	}
	return desk{books, books, r}
}
