package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/gate"
	"example.com/stock/handler"
	"example.com/stock/health"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/strategy"
)

// An opener makes one of the servers known that strategies need.
type opener struct {
	name string
	open func() error
}

func (a *app) openers() []opener {
	return []opener{
		{strategy.Redis, a.openRedis},
		{strategy.Redlock, a.openRedlock},
		{strategy.ZooKeeper, a.openZooKeeper},
		{strategy.MySQL, a.openMySQL},
	}
}

func (a *app) openRedis() error {
	c := a.cfg.Redis
	options := redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName, IsClusterMode: c.Cluster, DB: c.DB,
		Username: c.Username, Password: c.Password, SentinelPassword: c.SentinelPassword, PoolSize: c.PoolSize,
		// Without this a command ignores its context's deadline: a wait of 100 ms on a silent server takes ReadTimeout.
		ContextTimeoutEnabled: true,
		// A retry after a lost reply would run a script twice. Who may retry does so knowingly.
		MaxRetries:  -1,
		DialTimeout: c.Timeout / 2, DialerRetries: 1,
		ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, PoolTimeout: c.Timeout,
	}
	// Locks, store and health probe have connections of their own: whoever waits for one of the locks' is no reason to
	// call the store slow, and the queue in front of the store knows that what it lets in finds a connection.
	locks, sales := redis.NewUniversalClient(&options), redis.NewUniversalClient(&options)
	a.servers.Redis = locks
	a.closers = append(a.closers, locks.Close, sales.Close)
	if len(c.Addrs) == 0 {
		const reason = "it is not configured: set redis.addrs (STOCK_REDIS_ADDRS)"
		a.backends[strategy.Redis] = health.Absent(strategy.Redis, reason)
		a.shelves[strategy.Redis] = service.StoreConfig{Store: repo.NewRedis(sales), Needs: a.backends[strategy.Redis]}
		return nil
	}
	room := c.PoolSize
	_, cluster := sales.(*redis.ClusterClient)
	if cluster {
		room *= max(3, len(c.Addrs)) // the pool is one of each node, and a node that hangs must not fill the queue
	}
	queue := gate.New(gate.Limits{In: room, PerKey: (room + 1) / 2, Waiting: c.Queue})
	a.metrics.Queue(strategy.Redis, queue.Load)
	place := fmt.Sprintf("redis %s %s/%d", c.MasterName, strings.Join(slices.Sorted(slices.Values(c.Addrs)), ","), c.DB)
	probe, check := a.redisProbe(options)
	a.shelve(strategy.Redis, place, cluster, repo.NewRedis(sales).Behind(queue), repo.NewRedis(probe), check, nil)
	return nil
}

// redisProbe makes the health check, on a connection that nothing else uses: however busy the pools are, Redis is asked
// and answers. The connection is made once, and again when it breaks. What it says of its data is asked there, too. The
// pool may be larger than the connections that are used: go-redis makes them on demand, and after as many failed dials
// as it may have connections it does not dial for a second.
func (a *app) redisProbe(options redis.UniversalOptions) (redis.UniversalClient, func(context.Context) error) {
	probe := redis.NewUniversalClient(&options)
	a.closers = append(a.closers, probe.Close)
	if _, cluster := probe.(*redis.ClusterClient); cluster {
		c := newClusterCheck(options.Addrs, *options.Simple())
		a.closers = append(a.closers, c.close)
		return probe, c.check
	}
	return probe, func(ctx context.Context) error { return probe.Ping(ctx).Err() }
}

func (a *app) openMySQL() error {
	c := a.cfg.MySQL
	if c.DSN == "" {
		a.backends[strategy.MySQL] = health.Absent(strategy.MySQL, "it is not configured: set mysql.dsn (STOCK_MYSQL_DSN)")
		a.shelves[strategy.MySQL] = service.StoreConfig{Needs: a.backends[strategy.MySQL]}
		return nil
	}
	db, err := repo.OpenMySQL(c.DSN, repo.Pool{Open: c.PoolSize})
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	pool, err := db.DB()
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, pool.Close)
	// Locks that keep a connection need a pool of their own: in a common one the waiters can take what the holder needs to write.
	lockDB, err := repo.OpenMySQL(c.DSN, repo.Pool{Open: c.LockPoolSize})
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	if a.servers.MySQL, err = lockDB.DB(); err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, a.servers.MySQL.Close)
	// The health probe asks on a connection that nothing else uses: however busy the pools are, MySQL is asked and
	// answers. Migrations need two more, at the start.
	probeDB, err := repo.OpenMySQL(c.DSN, repo.Pool{Open: 3, Idle: 1})
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	probe, err := probeDB.DB()
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, probe.Close)
	migrator, err := repo.NewMigrator(probeDB)
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	ready := migrator.Check
	if c.Migrate {
		ready = func(ctx context.Context) error {
			applied, err := migrator.Up(ctx)
			if len(applied) > 0 {
				a.log.Info("schema brought up", "migrations", len(applied))
			}
			return err
		}
	}
	dsn, err := mysql.ParseDSN(c.DSN)
	if err != nil {
		return fmt.Errorf("open mysql: %w", err)
	}
	gates := mysqlGates(c.PoolSize, c.Queue)
	a.metrics.Queue(strategy.MySQL, gates.All.Load)
	place := "mysql " + dsn.Addr + "/" + dsn.DBName
	a.shelve(strategy.MySQL, place, false, repo.NewMySQL(db).Behind(gates), repo.NewMySQL(probeDB), probe.PingContext, ready)
	return nil
}

// mysqlGates are the queues in front of a pool of so many connections: one is kept for taking waiters out of the
// server's queue, a quarter is what one SKU may have, and a half what transactions may have, which wait for rows.
func mysqlGates(pool, queue int) repo.Gates {
	room := max(pool-1, 1)
	return repo.Gates{
		All:          gate.New(gate.Limits{In: room, PerKey: max(room/4, 2), Waiting: queue}),
		Transactions: gate.New(gate.Limits{In: max(room/2, 1), PerKey: 2}),
	}
}

func (a *app) openZooKeeper() error {
	c := a.cfg.ZooKeeper
	if len(c.Hosts) == 0 {
		a.backends[strategy.ZooKeeper] = health.Absent(strategy.ZooKeeper, "it is not configured: set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)")
		return nil
	}
	session, err := zklock.Dial(zklock.Config{
		Hosts: c.Hosts, SessionTimeout: c.SessionTimeout, ConnectTimeout: c.ConnectTimeout, Root: c.Root, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("open zookeeper: %w", err)
	}
	a.servers.ZooKeeper = session
	a.closers = append(a.closers, func() error { session.Close(); return nil })
	a.backends[strategy.ZooKeeper] = health.New(strategy.ZooKeeper, session.Check)
	return nil
}

// A stocked store is what wire needs of both.
type stocked interface {
	service.Store
	service.Inventory
	Answers() uint64
}

// witness is what a store knows of its own data, and of that of the other.
type witness interface {
	service.Seeder
	service.Origins
	service.Memory
}

// shelve makes a store and its backend known. place is where the store is: by that the other store remembers it. Every
// time that the server comes up, ready (if any) runs first. With every probe the store is asked whether it still has
// its data, which also seeds it at its first start, and never again.
//
// A server in parts, such as a Redis Cluster, is up for the SKUs of the others while one part does not answer, which may
// be the one that tells of the data.
func (a *app) shelve(name, place string, parts bool, store stocked, data witness, ping, ready func(context.Context) error) {
	keeper := service.NewKeeper(service.KeeperConfig{
		Name: name, Place: place, Store: data, Origins: data,
		Seed:    service.Seed{SKU: service.SKU(a.cfg.Seed.SKU), Quantity: a.cfg.Seed.Quantity},
		Changed: func(bad error) { a.dataChanged(name, bad) },
	})
	ping = health.Heard(ping, store.Answers)
	fresh, known := true, false
	check := func(ctx context.Context) error {
		err := ping(ctx)
		if _, some := errors.AsType[*health.ImpairedError](err); err != nil && !some {
			fresh = true
			return err
		}
		if fresh {
			// A migration takes longer than a probe may, and may have to wait for that of another instance. It must not
			// keep us from stopping.
			long, cancel := context.WithTimeout(a.life, time.Minute)
			defer cancel()
			ctx = long
		}
		if fresh && ready != nil {
			if bad := ready(ctx); bad != nil {
				if a.life.Err() == nil {
					a.log.Error("prepare "+name, "err", bad)
				}
				return bad
			}
		}
		if bad := keeper.Check(ctx); bad != nil {
			fresh = true // a database that is empty lacks its tables, too
			switch {
			case err != nil:
				return err // where slots are not served it may be those that tell of the data
			case parts && known:
				return &health.ImpairedError{Reason: "the part that tells whether the data is there does not answer"}
			}
			return bad
		}
		fresh, known = false, true
		return err
	}
	a.backends[name] = health.New(name, check)
	a.shelves[name] = service.StoreConfig{Store: store, Needs: a.backends[name], Data: keeper}
	a.witnesses[name] = data
}

// introduce makes each of the stores remember the origin of the other.
func (a *app) introduce() {
	for name, shelf := range a.shelves {
		for other, data := range a.witnesses {
			if shelf.Data != nil && other != name {
				shelf.Data.Beside(service.Remembrance{Name: other, Memory: data, Server: a.backends[other]})
			}
		}
	}
}

// dataChanged is told when a store is found with its data, or without.
func (a *app) dataChanged(name string, bad error) {
	lost := errors.Is(bad, service.ErrDataLost)
	a.metrics.DataLost(name, lost)
	switch {
	case lost:
		a.log.Error("store has lost its data: nothing is sold until a person sets the stock", "store", name, "reason", bad)
	case bad != nil:
		a.log.Warn("store cannot be used yet", "store", name, "reason", bad)
	default:
		a.log.Info("store has its data", "store", name)
	}
	for other, shelf := range a.shelves {
		if other != name && shelf.Data != nil {
			shelf.Data.Again() // what came back may have forgotten the other
		}
	}
}

// A larder is a store for those who want to know whether it can be used: its server, and its data.
type larder struct {
	*health.Backend
	data *service.Keeper
}

// Err is nil if the server is up and the store has its data.
func (l larder) Err() error {
	if err := l.Backend.Err(); err != nil {
		return err
	}
	return l.data.Err()
}

// usable is what can be told of a server: of one which is a store also whether it has its data.
func (a *app) usable(name string) handler.Backend {
	if data := a.shelves[name].Data; data != nil {
		return larder{a.backends[name], data}
	}
	return a.backends[name]
}
