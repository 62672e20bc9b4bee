package strategy_test

import (
	"context"
	"testing"
	"time"

	"example.com/stock/lock"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/service/strategy"
)

// A tap counts what goes to one server.
type tap struct {
	*wire.Proxy
	t *testing.T
}

func tapped(t *testing.T, addr string, p wire.Protocol) tap {
	t.Helper()
	proxy, err := wire.Listen(addr, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	return tap{proxy, t}
}

// whole takes what is written at once for one message, as a pipeline is: one round trip.
func whole() wire.Protocol { return wire.Protocol{} }

// statements are MySQL's without the pings, which come once a second however long the lock is held.
func statements() wire.Protocol {
	p := wire.MySQL()
	inner := p.Chatter
	p.Chatter = func(m []byte, first bool) bool {
		const header, ping = 4, 14
		return inner(m, first) || len(m) == header+1 && m[header] == ping
	}
	return p
}

func (p tap) redis() redis.UniversalClient {
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 4})
	p.t.Cleanup(func() { c.Close() })
	return c
}

// counted are servers behind taps, and the taps that see the requests of a strategy's lock: of redlock one, since
// the nodes are asked in parallel.
func counted(t *testing.T, s strategy.Strategy) (strategy.Servers, tap) {
	t.Helper()
	patient := strategy.Servers{RedlockNodeTimeout: 10 * time.Second, RedlockQuarantine: -1}
	switch s.Needs[0] {
	case strategy.Redis:
		p := tapped(t, servers.Redis(t).Addr, whole())
		patient.Redis = p.redis()
		return patient, p
	case strategy.Redlock:
		var first tap
		for i := range 3 {
			p := tapped(t, stacktest.Redis(t).Addr, whole())
			patient.Redlock = append(patient.Redlock, p.redis())
			if i == 0 {
				first = p
			}
		}
		return patient, first
	case strategy.ZooKeeper:
		p := tapped(t, servers.ZooKeeper(t), wire.ZooKeeper())
		session, err := zklock.Dial(zklock.Config{Hosts: []string{p.Addr()}, SessionTimeout: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { session.Close() })
		deadline := time.Now().Add(time.Minute)
		for ; session.Check(t.Context()) != nil; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no session")
			}
		}
		patient.ZooKeeper = session
		return patient, p
	default:
		dsn, err := mysql.ParseDSN(database(t))
		if err != nil {
			t.Fatal(err)
		}
		p := tapped(t, dsn.Addr, statements())
		dsn.Addr = p.Addr()
		if patient.MySQL, err = orm(t, dsn.FormatDSN()).DB(); err != nil {
			t.Fatal(err)
		}
		return patient, p
	}
}

// orm opens dsn as the service does.
func orm(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	g, err := repo.OpenMySQL(dsn, repo.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	if db, err := g.DB(); err == nil {
		t.Cleanup(func() { db.Close() })
	}
	return g
}

// database returns the DSN of a database with the schema of the service, which is the test's own.
func database(t *testing.T) string {
	t.Helper()
	return servers.FilledMariaDB(t, func(t testing.TB, dsn string) {
		migrator, err := repo.NewMigrator(orm(t, dsn))
		if err == nil {
			_, err = migrator.Up(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// What the catalogue says of round trips is what goes over the wire, for every strategy. It is the mean of some
// holds, rounded: a renewal or the like of a busy computer may come in between, and the last node of redlock may be
// told a little later.
func TestRoundTripsAreThoseOnTheWire(t *testing.T) {
	t.Parallel()
	const holds = 20
	for _, s := range strategy.All() {
		if s.Lock == nil || len(s.Needs) == 0 {
			continue // there is nothing to ask
		}
		t.Run(s.Name, func(t *testing.T) {
			on, p := counted(t, s)
			l := s.Lock(on)
			if c, ok := l.(interface{ Close() error }); ok {
				t.Cleanup(func() { c.Close() })
			}
			hold := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				lease, err := l.Acquire(ctx, "trips-of-"+s.Name, lock.Options{})
				if err != nil {
					return err
				}
				return lease.Release()
			}
			requests := 0
			// three make the connections, the folder, the row
			for done, patience := -3, time.Now().Add(2*time.Minute); done < holds; {
				before := p.Count(wire.ToServer)
				switch err := hold(); {
				case err == nil:
					if done++; done > 0 {
						requests += p.Count(wire.ToServer) - before
					}
				case time.Now().After(patience):
					t.Fatal(err)
				default:
					time.Sleep(10 * time.Millisecond) // a server that is too busy to answer
				}
			}
			if (requests+holds/2)/holds != s.RoundTrips {
				t.Errorf("%d requests for %d holds, but the catalogue says %d for each", requests, holds, s.RoundTrips)
			}
		})
	}
}
