package ledger_test

import "example.com/stock/repo/repotest"

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
	numbered       = repotest.Numbered
	openMySQL      = repotest.OpenMySQL
	order          = repotest.Order
	recorded       = repotest.Recorded
	sharedMySQL    = repotest.SharedMySQL
	trips          = repotest.TripsOf
	want           = repotest.Want
)

type (
	proxy    = repotest.Proxy
	recorder = repotest.Recorder
	shop     = repotest.Shop
)
