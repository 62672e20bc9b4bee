// Package stock keeps the stock and the orders of the demonstration in Redis and in MySQL, written as the strategies
// write: blindly, by comparing, or by a condition.
//
// Both stores keep the same promises and pass the same table of clauses (see clauses_test.go). They share one idea: the
// server writes the order and the deduction in one step, a script or a transaction. So initial = remaining + sold can
// only be broken by a lost update, and never by a crash, a broken connection or a retry.
//
// There is one file for each subject and store: a sale is read from top to bottom in sale_redis.go and in
// sale_mysql.go. How a script or a transaction is sent, and what its errors mean, is in package repo.
package stock

import (
	"example.com/stock/repo"
	"example.com/stock/service"
)

// Redis keeps stock and orders in Redis. Each SKU has these keys, all but one of them from when it is first set:
//
//   - stock:{<sku>}: a hash, with the segments of the stock if there are any.
//   - stock:{<sku>}:orders: a list, which begins with the number of the epoch and then has its orders as they were
//     written. When the stock is set again it becomes stock:{<sku>}:orders:<epoch>, and expires after KeepOrders.
//   - stock:{<sku>}:key:<digest>: the order that was written with an idempotency key, and its fingerprint, for
//     as long as [repo.Redis.KeepKeysFor] says. It is there only if a client sent one.
//   - stock:{<sku>}:settled: a sorted set of the ids that [Redis.Settle] has declared absent, scored by the time when
//     they may be forgotten.
//
// The braces are a hash tag: all keys of a SKU are in one slot of a cluster, so that one script can use them. Scripts
// name all keys that they use. A cluster that is moving the slot then refuses a script (TRYAGAIN) while some of the
// keys are on one node and others on another. The script has done nothing, and is sent again until ctx ends. A cluster
// cannot know where a key is that does not exist: so all three keys are made at once, and Set waits for the end of the
// move, as does a sale with an idempotency key.
//
// Every operation is one round trip, except Set (two) and Settle. The first use of a script after a restart of Redis
// takes one more. Scripts run one at a time, so nothing can come between the deduction and its order.
//
// The orders of the current epoch are never removed: whoever judges a run needs all of them. Each takes some 300 bytes,
// so a million takes 300 MB, and without maxmemory Redis takes what there is. Setting the stock again begins a new
// list.
//
// What is not promised: that an answered write survives. Redis answers before it has written to disk or to a replica.
// A crash can lose the last second and a failover the last writes, and with them fences, versions and what was settled.
// It never loses half of a sale. The option lock.replicas does not change that: it is about locks, and writes to the
// stock wait for no replica. A WAIT after each would be a second round trip, and could not be undone where too few
// replicas answer: that sale is written, and whether it survives is as open as before.
type Redis struct{ *repo.Redis }

// NewRedis returns a store that uses r.
func NewRedis(r *repo.Redis) *Redis { return &Redis{r} }

// MySQL keeps stock and orders in MySQL or MariaDB, in the tables of repo/migrations. The deduction and its order are
// one transaction. It is safe for concurrent use.
//
// Round trips: Read 1; Write, Swap, Deduct and Batch, for any number of sales, 2 (see repo.MySQL.InTwo); a sale in
// Transact 5 (BEGIN, SELECT ... FOR UPDATE, UPDATE, INSERT, COMMIT). A refused Write or Swap takes one more, to find
// the reason.
type MySQL struct{ *repo.MySQL }

// NewMySQL returns a store that uses m.
func NewMySQL(m *repo.MySQL) *MySQL { return &MySQL{m} }

// The interfaces of package service that MySQL implements.
var (
	_ service.Store      = (*MySQL)(nil)
	_ service.Deductor   = (*MySQL)(nil)
	_ service.Batcher    = (*MySQL)(nil)
	_ service.Fencer     = (*MySQL)(nil)
	_ service.Transactor = (*MySQL)(nil)
	_ service.Segmenter  = (*MySQL)(nil)
	_ service.Inventory  = (*MySQL)(nil)
	_ service.Settler    = (*MySQL)(nil)
	_ service.Replayer   = (*MySQL)(nil)
	_ service.Origins    = (*MySQL)(nil)
	_ service.Memory     = (*MySQL)(nil)
	_ service.Store      = (*transaction)(nil)
)

// The interfaces of package service that Redis implements. It is not a Transactor: MULTI cannot read and then decide.
var (
	_ service.Store     = (*Redis)(nil)
	_ service.Deductor  = (*Redis)(nil)
	_ service.Batcher   = (*Redis)(nil)
	_ service.Fencer    = (*Redis)(nil)
	_ service.Segmenter = (*Redis)(nil)
	_ service.Inventory = (*Redis)(nil)
	_ service.Settler   = (*Redis)(nil)
	_ service.Replayer  = (*Redis)(nil)
	_ service.Origins   = (*Redis)(nil)
	_ service.Memory    = (*Redis)(nil)
)
