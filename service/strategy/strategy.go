// Package strategy is the catalogue of all ways to sell stock under concurrency, weakest first. Routes, tests, load
// runs and docs range over it. To add a strategy, write a file like zk_sequential.go and add a line to All.
package strategy

import (
	"database/sql"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
)

// The servers and stores, by the names that configuration, requests and metrics use.
const (
	Redis     = "redis"
	MySQL     = "mysql"
	ZooKeeper = "zookeeper"
)

// A Strategy is one way to sell. It has a Lock, or a Seller that needs none.
type Strategy struct {
	Name     string // in URLs, flags, metrics, tests and docs
	Endpoint string // POST
	Summary  Text   // one line, without a full stop
	Caveat   Text   // what it does not promise, in a sentence or two
	Needs    []string
	Stores   []string // the stores it works on, the default first; empty: all
	Promise  driver.Promise

	// RoundTrips is the number of round trips to the lock's servers to acquire and release the lock, without
	// contention and when its key and connections have been used before. A pipeline, concurrent requests to several
	// servers, and a statement of MySQL count as one each. It is 0 if the lock is in the process, or if there is
	// none. Reads and writes of the stock do not count.
	RoundTrips int

	// Lock must not connect to a server, because servers may be down. Its result may be an io.Closer.
	Lock      func(Servers) lock.Locker
	Around    func(Servers, lock.Locker) service.Seller // what sells under the Lock; nil: service.UnderLock
	Segmented bool                                      // Around acquires a lock for each segment of a SKU
	Seller    func(Servers) service.Seller
}

// A Text is a text in two languages.
type Text struct{ EN, ZH string }

// Servers has the servers that locks use, and their settings.
type Servers struct {
	Redis     redis.UniversalClient
	Redlock   []*redis.Client // one for each independent master
	ZooKeeper *zklock.Session
	MySQL     *sql.DB // the locks' own pool, not the store's: see mysqllock

	SetNXLease      time.Duration // of the SETNX locks; 0: their default
	RepairSetNX     bool          // redis-setnx-expire sets an expiry on a key that was left without one
	WatchdogLease   time.Duration // of the renewed locks; 0: their default
	WatchdogMaxHold time.Duration // 0: the default
	LeaseTime       time.Duration // of redis-rlock and redis-watchdog, which then do not renew; 0: they do
	// Replicas is how many replicas of Redis must acknowledge a lock of redis-setnx or redis-watchdog, but not a
	// sale; 0: none
	Replicas       int
	ReplicaTimeout time.Duration // how long they have; 0: the default

	RedlockLease       time.Duration // 0: the default
	RedlockNodeTimeout time.Duration // how long one node may take; 0: the default
	RedlockQuarantine  time.Duration // see redislock.RedlockOptions; 0: the default, negative: none

	MergeQueue int  // the most sales of a SKU that wait for a batch of merged; 0: the default
	Segments   int  // of each SKU that is sold in segments; 0: the default
	PlainLocks bool // no lock.HandOver inside the process: every request contends at the server
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

// An UnknownError reports that there is no strategy called Name. Names are those that exist.
type UnknownError struct {
	Name  string
	Names []string
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("unknown strategy %q; there are %s", e.Name, strings.Join(e.Names, ", "))
}

// handOver lets all requests of this process share one waiter at the server, unless PlainLocks is set.
func (s Servers) handOver(l driver.FenceRanger) lock.Locker {
	if s.PlainLocks {
		return l
	}
	return lock.HandOver(l, lock.Bound{})
}

// Build returns the seller of s, and a func that closes its lock. If watch is not nil, it wraps the lock.
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
