package ledger_test

import (
	"testing"

	"example.com/stock/repo/repotest"
)

func TestMain(m *testing.M) { repotest.Main(m) }

// What tests of this package use of repotest.
var (
	down           = repotest.Down
	statementWaits = repotest.StatementWaits
	deadlockWith   = repotest.DeadlockWith
	database       = repotest.Database
	dialRedis      = repotest.DialRedis
	invalid        = repotest.Invalid
	migrated       = repotest.Migrated
	mustRead       = repotest.MustRead
	mustSet        = repotest.MustSet
	newProxy       = repotest.NewProxy
	newSKU         = repotest.NewSKU
	numbered       = repotest.Numbered
	openMySQL      = repotest.OpenMySQL
	order          = repotest.Order
	recorded       = repotest.Recorded
	sharedMySQL    = repotest.SharedMySQL
	short          = repotest.Short
	trips          = repotest.TripsOf
	want           = repotest.Want
)

type (
	proxy    = repotest.Proxy
	recorder = repotest.Recorder
	shop     = repotest.Shop
)
