package ledger_test

import (
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
)

func mysqlDesk(t testing.TB) desk {
	return deskOnMySQL(repo.NewMySQL(repotest.OpenMySQL(t, repotest.SharedMySQL(t))))
}

func deskOnMySQL(m *repo.MySQL) desk {
	books := ledger.NewMySQL(m)
	return desk{books, books, m}
}
