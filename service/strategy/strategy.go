// Package strategy is the catalogue: every way to sell stock under concurrency, weakest first. Routes, tests, load
// runs and docs range over it. To add one, write a file like zk_sequential.go and add a line to All.
package strategy

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
)

// The servers and stores, by the names that configuration, requests and metrics use.
const (
	Redis     = "redis"
	MySQL     = "mysql"
	ZooKeeper = "zookeeper"
)

// A Strategy is one way to sell. It has a Lock, or a Way of its own that needs none.
type Strategy struct {
	Name     string // in URLs, flags, metrics, tests and docs
	Endpoint string // POST
	Summary  Text   // one line, without a full stop
	Caveat   Text   // what it does not promise, in a sentence or two
	Needs    []string
	Stores   []string // those it works on, the default first; empty: all
	Promise  lock.Promise
	// NodeLocal says that only the server that granted the lock knows of it. In a MySQL cluster that accepts writes on
	// several nodes such a lock excludes nobody on the other nodes.
	NodeLocal bool

	// RoundTrips is what it costs to acquire the lock and to release it, if nobody else wants it and the
	// connections and the key have been used before: how often a request leaves for the lock's servers and its
	// answer is waited for. Commands in a pipeline, and requests to several servers at the same time, are one; a
	// statement of MySQL is one. 0: nothing is asked, because the lock is in the process, or because the writes
	// need none. Reading and writing the stock is not counted.
	RoundTrips int

	// opens nothing: servers may be down. The result may be an io.Closer
	Lock      func(Servers) lock.Locker
	Around    func(Servers, lock.Locker) service.Seller // what sells under the Lock; nil: service.UnderLock
	Segmented bool                                      // Around takes a lock for each segment of a SKU
	Seller    func(Servers) service.Seller
	Fits      func(service.Store) error // what the seller needs of a store, see service.Fits; nil: it takes every store
}

// A Text is the same in two languages.
type Text struct{ EN, ZH string }

// Servers are what locks are built on.
type Servers struct {
	Redis     redis.UniversalClient
	Redlock   []redis.UniversalClient // one for each independent master
	ZooKeeper *zklock.Session
	MySQL     *sql.DB // the locks' own pool, not the store's: see mysqllock
	// that mysql-for-update, and as many that mysql-get-lock, can hold at a time; 0: a third of the pool
	MySQLKeys int

	SetNXLease      time.Duration // of the SETNX locks; 0: their default
	RepairSetNX     bool          // redis-setnx-expire gives an expiry to a key that was left without
	WatchdogLease   time.Duration // of the renewed locks; 0: their default
	WatchdogMaxHold time.Duration // 0: the default
	LeaseTime       time.Duration // of redis-rlock and redis-watchdog, which then do not renew; 0: they do
	// of Redis that must acknowledge a lock of redis-setnx or redis-watchdog (not a sale); 0: none
	Replicas       int
	ReplicaTimeout time.Duration // how long they have; 0: the default

	RedlockLease       time.Duration // 0: the default
	RedlockNodeTimeout time.Duration // how long one node may take; 0: the default
	RedlockQuarantine  time.Duration // see redislock.RedlockOptions; 0: the default, negative: none

	Merge service.MergeOptions // of the strategies that merge

	Segments   int  // of each SKU that is sold in segments; 0: the default
	PlainLocks bool // no lock.HandOver inside the process: every request is a contender of its own
	Log        *slog.Logger
}

// All is the catalogue, weakest first.
func All() []Strategy {
	return []Strategy{
		none(),
		localMutex(),
		redisSetNXExpire(),
		redisSetNXDel(),
		redisSetNXWatch(),
		redisSetNX(),
		redisRLock(),
		redisWatchdog(),
		redlock(),
		zkEphemeral(),
		zkSequential(),
		mysqlTable(),
		mysqlForUpdate(),
		mysqlGetLock(),
		segmented(),
		pessimistic(),
		optimistic(),
		atomic(),
		zkMerged(),
		merged(),
	}
}

// Lookup finds a strategy by name. The error is an UnknownError.
func Lookup(name string) (Strategy, error) {
	var names []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Strategy{}, &UnknownError{name, names}
}

// An UnknownError says that there is no strategy of that name, and which there are.
type UnknownError struct {
	Name  string
	Names []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown strategy %q; there are %s", e.Name, strings.Join(e.Names, ", "))
}

// handOver makes one contender of all requests of this process, unless plain locks are wanted.
func (s Servers) handOver(l lock.FenceRanger) lock.Locker {
	if s.PlainLocks {
		return l
	}
	return lock.HandOver(l, lock.Bound{})
}

// Build makes the Way of s. watch, if not nil, decorates the lock.
func (s Strategy) Build(
	servers Servers,
	watch func(lock.Locker) lock.Locker,
) (seller service.Seller, closer func() error) {
	closer = func() error { return nil }
	if s.Lock == nil {
		return s.Seller(servers), closer
	}
	l := s.Lock(servers)
	if c, ok := l.(interface{ Close() error }); ok {
		closer = c.Close
	}
	if watch != nil {
		l = watch(l)
	}
	if s.Around != nil {
		return s.Around(servers, l), closer
	}
	return service.UnderLock(l), closer
}
