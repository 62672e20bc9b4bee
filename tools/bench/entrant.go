package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.com/stock/lock/locktest/server"
)

// A side says whose lock an entrant is.
type side string

const (
	ours  side = "ours"
	peer  side = "peer"
	bound side = "no lock" // the limit of every lock, or what happens without one
)

// An entrant is one lock in the comparison, or the same work without a lock.
type entrant struct {
	name   string
	what   string // one line for the legend
	side   side
	server server.Kind // where the lock is kept. Locks of one server are compared with each other

	open func(ctx context.Context, t task) ([]turn, error) // the contenders of a worker process

	loses bool // it is no lock: updates may be lost
	alone bool // one client only, also where others are 30

	program string // its worker, if that is not this program
}

// beside adds our own entrants once more for each other build of this program, LABEL=PROGRAM.
func beside(list []entrant, builds []string) (all []entrant) {
	for _, e := range list {
		all = append(all, e)
		if e.side != ours {
			continue
		}
		for _, build := range builds {
			other := e
			var label string
			label, other.program, _ = strings.Cut(build, "=")
			other.name += besideMark + label
			all = append(all, other)
		}
	}
	return all
}

// besideMark is between the name of an entrant and the label of the build.
const besideMark = " @"

// base is the name without such a label.
func (e entrant) base() string {
	name, _, _ := strings.Cut(e.name, besideMark)
	return name
}

// needs returns the servers. The work is on Redis unless it is the lock's own transaction.
func (e entrant) needs() []server.Kind {
	if e.server == server.Redis || e.server == server.MySQL {
		return []server.Kind{e.server}
	}
	return []server.Kind{server.Redis, e.server}
}

// Names that figures refer to.
const (
	nameLimit      = "one client, no lock"
	nameNone       = "no lock (wrong)"
	nameSmallest   = "fence and queue, smallest scripts"
	nameSpin       = "SET NX PX, 1 ms spin"
	nameRedislock  = "bsm/redislock, 1 ms"
	nameRedsync    = "redsync, defaults"
	nameRedsync1   = "redsync, 1 ms"
	nameWatchdog   = "redis-watchdog"
	nameZKLock     = "go-zookeeper Lock, 10 connections"
	nameZKLock1    = "go-zookeeper Lock, 1 connection"
	nameSequential = "zk-sequential"
	namePessimist  = "pessimistic"
	nameSetNX      = "redis-setnx, waiting"
	nameAtomic     = "atomic"
	nameBareSQL    = "database/sql, same statements"
	plainSuffix    = ", no hand-over"
)

// entrants returns them in the order of the tables.
func entrants() []entrant {
	return []entrant{
		{
			name: nameLimit, side: bound, server: server.Redis, loses: true, alone: true, open: openNone,
			what: "GET + SET by a single client: the limit for every lock around the two on Redis or ZooKeeper",
		},
		{
			name: nameNone, side: bound, server: server.Redis, loses: true, open: openNone,
			what: "GET + SET by all contenders at once: loses updates",
		},
		{
			name: nameSmallest, side: bound, server: server.Redis, open: openSmallest,
			what: "no lock to use: what a fence and a queue cost at least if nobody waits. Tried every 1 ms",
		},

		{
			name: nameWatchdog, side: ours, server: server.Redis, open: shipped("redis-watchdog", false),
			what: "as the service has it: lock.HandOver around redislock.Watchdog",
		},
		{
			name: nameWatchdog + plainSuffix, side: ours, server: server.Redis, open: shipped("redis-watchdog", true),
			what: "redislock.Watchdog alone: every contender has a lease of its own",
		},
		{
			name: nameSetNX, side: ours, server: server.Redis, open: shipped("redis-setnx", true),
			what: "redislock.SetNX, polled with its jittered back-off of 2 to 50 ms",
		},
		{
			name: nameSpin, side: peer, server: server.Redis, open: openSpin,
			what: "written out by hand: SET NX PX with a random value, tried every 1 ms, compare-and-delete in Lua. " +
				"No fence, no renewal",
		},
		{
			name: nameRedislock, side: peer, server: server.Redis, open: openRedislock,
			what: "github.com/bsm/redislock with LinearBackoff(1 ms). No renewal, no loss signal",
		},
		{
			name: nameRedsync, side: peer, server: server.Redis, open: openRedsync(false),
			what: "github.com/go-redsync/redsync/v4 as it comes: retries after 50 to 250 ms, gives up after 32 " +
				"(and is asked again here)",
		},
		{
			name: nameRedsync1, side: peer, server: server.Redis, open: openRedsync(true),
			what: "the same with a retry delay of 1 ms",
		},

		{
			name: nameSequential, side: ours, server: server.ZooKeeper, open: shipped("zk-sequential", false),
			what: "as the service has it: with lock.HandOver if the catalogue says so",
		},
		{
			name: nameSequential + plainSuffix, side: ours, server: server.ZooKeeper,
			open: shipped("zk-sequential", true),
			what: "zklock.Sequential alone: every contender has a node of its own",
		},
		{
			name: nameZKLock, side: peer, server: server.ZooKeeper, open: openZKLock(false),
			what: "the client library's own lock, a session for each contender",
		},
		{
			name: nameZKLock1, side: peer, server: server.ZooKeeper, open: openZKLock(true),
			what: "the same, one session for each process",
		},

		{
			name: namePessimist, side: ours, server: server.MySQL, open: openPessimistic,
			what: "repo.MySQL.Transact through gorm: SELECT ... FOR UPDATE, UPDATE, INSERT of the order, COMMIT",
		},
		{
			name: nameAtomic, side: ours, server: server.MySQL, open: openAtomic,
			what: "repo.MySQL.Deduct: the same five statements in two packets",
		},
		{
			name: nameBareSQL, side: peer, server: server.MySQL, open: openBareSQL,
			what: "the same five statements in a loop over database/sql, same pool, " +
				"values interpolated by the driver too",
		},
	}
}

func lookup(name string) (entrant, error) {
	all := entrants()
	i := slices.IndexFunc(all, func(e entrant) bool { return e.name == name })
	if i < 0 {
		return entrant{}, fmt.Errorf("no entrant is called %q", name)
	}
	return all[i], nil
}

// alike returns n contenders that share one turn, which may run concurrently.
func alike(n int, t turn) []turn { return slices.Repeat([]turn{t}, n) }
