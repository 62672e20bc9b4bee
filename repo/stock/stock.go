// Package stock keeps the stock and the orders of the demonstration in Redis and in MySQL. It has the writes that the
// strategies need: blind (Write), compare-and-swap (Swap) and conditional (Deduct).
//
// Both stores make the same promises and pass the same tests (see clauses_test.go). In both the server writes the
// order and the deduction in one step, a script or a transaction. So only a lost update can break initial = remaining
// + sold, never a crash, a broken connection or a retry.
//
// There is one file for each subject and store: to follow a sale, read sale_redis.go or sale_mysql.go from top to
// bottom. The blind writes are in blind.go. Only Redis has an origin, and only MySQL has transactions. Package repo
// sends scripts and transactions and converts their errors.
package stock

import (
	"example.com/stock/repo"
	"example.com/stock/service"
)

// Redis keeps stock and orders in Redis. Each SKU has these keys:
//
//   - stock:{<sku>}: a hash, with the segments of the stock if there are any.
//   - stock:{<sku>}:orders: a list of the number of the epoch, followed by its orders in the sequence of their writes.
//     When the stock is set again it becomes stock:{<sku>}:orders:<epoch>, and expires after KeepOrders. Then it begins
//     with the numbers of its epoch and of the one before, by which Settle finds the list before.
//   - stock:{<sku>}:settled: a sorted set of the ids that [Redis.Settle] has declared absent, by the time when they may
//     be forgotten.
//   - stock:{<sku>}:key:<digest>: the fingerprint of an idempotency key and the order that was written with it, for the
//     time of [service.KeepKeys].
//
// The braces are a hash tag: all keys of a SKU are in one slot of a cluster, so that one script can use them. Scripts
// name all keys that they use. While a cluster is moving the slot, it refuses a script (TRYAGAIN) if its keys are on
// two nodes, or if one of them does not exist, because the cluster does not know which node such a key belongs to. The
// script has done nothing, and is sent again until ctx ends. So the first Set creates the first three keys together,
// and a Set or a sale with an idempotency key waits for the end of the move.
//
// Every operation takes one round trip, except Set (two) and Settle. The first use of a script after a restart of Redis
// takes one more. Redis runs one script at a time, so no other write comes between a deduction and its order.
//
// The orders of the current epoch are never removed, because the verdict on a run needs all of them. Each takes some
// 300 bytes, so a million takes 300 MB; without maxmemory Redis has no limit. A Set begins a new list.
//
// Redis does not promise that an answered write survives: it answers before it has written to disk or to a replica. A
// crash can lose the last second of writes, and a failover the last writes, with their fences, versions and settled
// ids. A sale is never lost in part. The option lock.replicas does not help: it is about locks, and writes to the stock
// wait for no replica. A WAIT after each write would be a second round trip, and if too few replicas answered, the sale
// would still be written, and could still be lost.
type Redis struct{ *repo.Redis }

func NewRedis(r *repo.Redis) *Redis { return &Redis{r} }

// MySQL keeps stock and orders in MySQL or MariaDB, in the tables of repo/migrations. A deduction and its order are
// one transaction. MySQL is safe for concurrent use.
//
// Read takes one round trip. Write, Swap, Deduct and Batch, for any number of sales, take two (see
// [repo.MySQL.InTwoPackets]). A sale in Transact takes five: BEGIN, SELECT ... FOR UPDATE, UPDATE, INSERT, COMMIT. A
// refused Write or Swap takes more, to find the reason.
type MySQL struct{ *repo.MySQL }

func NewMySQL(m *repo.MySQL) *MySQL { return &MySQL{m} }

// The interfaces of package service that MySQL implements.
var (
	_ service.Shop       = (*MySQL)(nil)
	_ service.Transactor = (*MySQL)(nil)
	_ service.Store      = (*transaction)(nil)
)

// The interfaces of package service that Redis implements. It is not a Transactor, because MULTI cannot read and then
// decide.
var (
	_ service.Shop    = (*Redis)(nil)
	_ service.Origins = (*Redis)(nil)
)
