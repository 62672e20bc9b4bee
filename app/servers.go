package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/app/health"
	"example.com/stock/lock/redislock"
	"example.com/stock/lock/zklock"
	"example.com/stock/repo"
	"example.com/stock/repo/gate"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/strategy"
)

// An opener opens the clients of one server that strategies need.
type opener struct {
	name string
	open func() error
}

func (a *App) openers() []opener {
	return []opener{
		{strategy.Redis, a.openRedis},
		{strategy.Redlock, a.openRedlock},
		{strategy.ZooKeeper, a.openZooKeeper},
		{strategy.MySQL, a.openMySQL},
	}
}

// redisOptions returns the options that all Redis clients of an instance share.
func (a *App) redisOptions() redis.UniversalOptions {
	c := a.cfg.Redis
	return redis.UniversalOptions{
		Username: c.Username, Password: c.Password, PoolSize: c.PoolSize,
		// Without this a command ignores its context's deadline: a wait of 100 ms on a silent server takes ReadTimeout.
		ContextTimeoutEnabled: true,
		// With RESP3 the client looks for messages from the server before each command, 6 % of a sale's time. None of
		// ours needs them.
		Protocol: 2,
		// A retry after a lost reply would run a script twice. The callers that may retry do so themselves.
		MaxRetries:  -1,
		DialTimeout: c.Timeout / 2, DialerRetries: 1,
		ReadTimeout: c.Timeout, WriteTimeout: c.Timeout, PoolTimeout: c.Timeout,
	}
}

func (a *App) openRedis() error {
	c := a.cfg.Redis
	options := a.redisOptions()
	options.Addrs, options.MasterName, options.IsClusterMode = c.Addrs, c.MasterName, c.Cluster
	options.DB, options.SentinelPassword = c.DB, c.SentinelPassword
	// Locks, store and health probe have connections of their own. So waiting for a connection of the locks does not
	// make the store look slow, and every request that the queue in front of the store admits finds a connection.
	locks, sales := redis.NewUniversalClient(&options), redis.NewUniversalClient(&options)
	a.servers.Redis = locks
	a.closers = append(a.closers, locks.Close, sales.Close)
	if len(c.Addrs) == 0 {
		absent := health.Absent(strategy.Redis, "redis-not-configured")
		a.backends[strategy.Redis] = absent
		if a.cfg.storeEnabled(strategy.Redis) {
			a.stores[strategy.Redis] = service.StoreConfig{Store: stock.NewRedis(repo.NewRedis(sales)), Needs: absent}
		}
		return nil
	}
	probe, ping := a.redisProbe(options, locks, sales)
	if !a.cfg.storeEnabled(strategy.Redis) { // it is there for locks alone
		a.backends[strategy.Redis] = health.New(strategy.Redis, ping)
		return nil
	}
	connections := c.PoolSize
	_, cluster := sales.(*redis.ClusterClient)
	if cluster {
		connections *= max(3, len(c.Addrs)) // each node has a pool, and a node that hangs must not fill the queue
	}
	queue := gate.New(gate.Limits{In: connections, PerKey: (connections + 1) / 2, Waiting: c.Queue})
	a.metrics.Queue(strategy.Redis, queue.Load)
	shop, watched := repo.NewRedis(sales).Behind(queue).KeepKeysFor(a.cfg.Orders.KeepKeys), repo.NewRedis(probe)
	var books order.Book
	if l, err := ledger.NewRedis(shop); err == nil {
		a.ledgers[strategy.Redis] = l
		books, _ = ledger.NewRedis(watched)
	} else {
		a.noLedger = err // of a Cluster: a cart has keys in several of its parts
	}
	a.addStore(store{
		name: strategy.Redis,
		place: fmt.Sprintf(
			"redis %s %s/%d", c.MasterName, strings.Join(slices.Sorted(slices.Values(c.Addrs)), ","), c.DB,
		),
		parts:  cluster,
		sales:  stock.NewRedis(shop),
		memory: stock.NewRedis(watched),
		books:  books,
		ping:   ping,
	})
	return nil
}

// redisProbe returns the health check. Its connection is its own, so that Redis is asked and answers however busy the
// pools are. The connection is made once, and again when it breaks. The store checks its data there, too. The pool may
// be larger than the connections in use: go-redis makes them on demand, and after as many failed dials as the pool has
// connections it does not dial for a second.
//
// For the same reason a pool may refuse requests when the probe already has its answer. So each of pools is asked, too:
// see through.
func (a *App) redisProbe(
	options redis.UniversalOptions, pools ...redis.UniversalClient,
) (redis.UniversalClient, func(context.Context) error) {
	probe := redis.NewUniversalClient(&options)
	a.closers = append(a.closers, probe.Close)
	if _, cluster := probe.(*redis.ClusterClient); cluster {
		c := newClusterCheck(options.Addrs, *options.Simple())
		a.closers = append(a.closers, c.close)
		return probe, c.check
	}
	return probe, through(repo.NewRedis(probe).CanWrite, pools)
}

// poolTime bounds how long the probe waits for a connection of a pool that requests use, and for the answer there.
const poolTime = health.Timeout / 4

// through is check, which also fails if the pool of one of clients cannot connect. It asks each of them by a PING, all
// at once. A pool that is busy, or slow, says nothing: requests use its connections, and check has its answer. So
// through takes poolTime longer than check at most.
func through(check func(context.Context) error, clients []redis.UniversalClient) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := check(ctx); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, poolTime)
		defer cancel()
		refused := make([]error, len(clients))
		var all sync.WaitGroup
		for i, client := range clients {
			all.Go(func() {
				err := client.Ping(short).Err()
				busy := errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
				if !busy && !isSlow(err) && short.Err() == nil {
					refused[i] = err
				}
			})
		}
		all.Wait()
		return errors.Join(refused...)
	}
}

// openRedlock opens the independent masters of redlock. They are up while a majority of distinct masters answers.
func (a *App) openRedlock() error {
	c := a.cfg.Redlock
	if len(c.Addrs) == 0 {
		a.backends[strategy.Redlock] = health.Absent(strategy.Redlock,
			"redlock-not-configured")
		return nil
	}
	shared := a.redisOptions()
	var probes []redis.UniversalClient // with connections of their own, as in redisProbe
	for _, addr := range c.Addrs {
		options := shared.Simple()
		options.Addr = addr
		node, probe := redis.NewClient(options), redis.NewClient(options)
		probes = append(probes, probe)
		a.servers.Redlock = append(a.servers.Redlock, node)
		a.closers = append(a.closers, node.Close, probe.Close)
	}
	a.servers.RedlockLease, a.servers.RedlockQuarantine = c.Lease, c.Quarantine
	a.servers.RedlockNodeTimeout = c.NodeTimeout
	quarantine := cmp.Or(c.Quarantine, c.Lease) // as in the lock: a node that the lock refuses is not up
	logged := false                             // replies give the numbers of nodes; their addresses are for the log
	a.backends[strategy.Redlock] = health.New(strategy.Redlock, func(ctx context.Context) error {
		err := redislock.CheckMasters(ctx, probes, quarantine)
		if err != nil && !logged && !errors.Is(ctx.Err(), context.Canceled) {
			a.log.Warn("redlock has no majority", "err", err)
		}
		logged = err != nil
		return err
	})
	return nil
}

func (a *App) openMySQL() error {
	c := a.cfg.MySQL
	if c.DSN == "" {
		absent := health.Absent(strategy.MySQL, "mysql-not-configured")
		a.backends[strategy.MySQL] = absent
		if a.cfg.storeEnabled(strategy.MySQL) {
			a.stores[strategy.MySQL] = service.StoreConfig{Needs: absent}
		}
		return nil
	}
	sales, salesPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: c.PoolSize}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, salesPool.Close)
	// Locks that keep a connection need a pool of their own: in a shared pool, the waiters can take the connections
	// that the holder needs to write.
	_, lockPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: c.LockPoolSize}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, lockPool.Close)
	a.servers.MySQL = lockPool
	// The connection of the health probe is its own, so that MySQL is asked and answers however busy the pools are.
	// database/sql dials whenever it needs a connection: requests reach the server as soon as the probe does.
	probe, probePool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: 3, Idle: 1}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, probePool.Close)
	// Migrations are not bound by what bounds a probe.
	migrations, migrationPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: 2, Idle: 1}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, migrationPool.Close)
	migrator, err := repo.NewMigrator(migrations)
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
	if !a.cfg.storeEnabled(strategy.MySQL) { // it is there for locks alone, whose tables the migrations make, too
		engineAndSchema := func(ctx context.Context) error {
			if err := a.readEngine(ctx, probePool); err != nil {
				return err
			}
			return ready(ctx)
		}
		a.backends[strategy.MySQL] = health.New(strategy.MySQL,
			a.readyOnce(probePool.PingContext, engineAndSchema, stock.NewMySQL(repo.NewMySQL(probe)).CanWrite))
		return nil
	}
	gates := mysqlGates(c.PoolSize, c.Queue)
	a.metrics.Queue(strategy.MySQL, gates.All.Load)
	shop := repo.NewMySQL(sales).Behind(gates)
	a.ledgers[strategy.MySQL] = ledger.NewMySQL(shop)
	probed := repo.NewMySQL(probe).ProbeOf(shop)
	watched, books := stock.NewMySQL(probed), ledger.NewMySQL(probed)
	canWrite := watched.CanWrite
	if a.cfg.Profile == ordersProfile {
		canWrite = books.CanWrite
	}
	ready, canWrite = a.oneWriter(probePool, shop.CommitApart, ready, canWrite)
	a.addStore(store{
		name: strategy.MySQL, place: "mysql " + dsn.Addr + "/" + dsn.DBName,
		sales: stock.NewMySQL(shop), memory: watched, books: books,
		ping: probePool.PingContext, ready: ready, canWrite: canWrite,
	})
	return nil
}

// mysqlGates returns the queues in front of a pool of that many connections. One connection is kept for taking waiters
// out of the server's queue. A single SKU may have a quarter, and transactions, which wait for rows, a half. A gate
// lets one in at the least.
func mysqlGates(connections, queue int) repo.Gates {
	admitted := connections - 1
	return repo.Gates{
		All:          gate.New(gate.Limits{In: admitted, PerKey: max(admitted/4, 2), Waiting: queue}),
		Transactions: gate.New(gate.Limits{In: admitted / 2, PerKey: 2}),
	}
}

func (a *App) openZooKeeper() error {
	c := a.cfg.ZooKeeper
	if len(c.Hosts) == 0 {
		a.backends[strategy.ZooKeeper] = health.Absent(strategy.ZooKeeper,
			"zookeeper-not-configured")
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
