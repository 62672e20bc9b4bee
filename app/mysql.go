package app

import (
	"context"
	"fmt"

	"example.com/stock/app/health"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

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
	secure, err := a.client("mysql.tls.", c.TLS)
	if err != nil {
		return err
	}
	traced := a.traces.SQL()
	sales, salesPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: c.PoolSize, TLS: secure, New: traced}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, salesPool.Close)
	// Locks that keep a connection need a separate pool: in a shared one, waiters could take the connections that the
	// holder needs to write.
	_, lockPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: c.LockPoolSize, TLS: secure, New: traced}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, lockPool.Close)
	a.servers.MySQL = lockPool
	// The health probe has a separate pool, so that it works even if the other pools are busy. Unlike redisProbe, it
	// need not test whether the other pools can connect, because database/sql connects whenever it needs a connection.
	probe, probePool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: 3, Idle: 1, TLS: secure}))
	if err != nil {
		return err
	}
	a.closers = append(a.closers, probePool.Close)
	// Migrations may take longer than the timeouts of a probe.
	migrations, migrationPool, err := pool(repo.OpenMySQL(c.DSN, repo.Pool{Open: 2, Idle: 1, TLS: secure}))
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
	probed := repo.NewMySQL(probe)
	oneWriter := func(next func(context.Context) error) func(context.Context) error {
		return probed.OneWriter(c.SingleWriter, a.mysqlIs, next)
	}
	ping := oneWriter(probePool.PingContext)
	if !a.cfg.storeEnabled(strategy.MySQL) { // only locks use MySQL; the migrations make the tables of the locks, too
		a.backends[strategy.MySQL] = health.New(strategy.MySQL,
			a.readyOnce(ping, ready, oneWriter(stock.NewMySQL(probed).CanWrite)))
		return nil
	}
	// One connection is reserved for removing waiters from the server's queue.
	queue := repo.NewQueue(c.PoolSize-1, c.Queue)
	a.metrics.Queue(strategy.MySQL, queue.Load)
	shop := repo.NewMySQL(sales).Behind(queue)
	probed.ProbeOf(shop)
	watched := stock.NewMySQL(probed)
	a.addStore(store{
		name: strategy.MySQL, sales: stock.NewMySQL(shop),
		ping: ping, ready: a.seeding(ready, watched), canWrite: oneWriter(watched.CanWrite),
	})
	return nil
}

// seeding returns ready, but it also seeds a new database, before the first request could miss the SKU.
func (a *App) seeding(ready func(context.Context) error, s *stock.MySQL) func(context.Context) error {
	seed := a.cfg.Seed
	if seed.SKU == "" {
		return ready
	}
	return func(ctx context.Context) error {
		if err := ready(ctx); err != nil {
			return err
		}
		return s.Seed(ctx, service.SKU(seed.SKU), seed.Quantity)
	}
}

// mysqlIs shows and logs what MySQL reports about itself.
func (a *App) mysqlIs(engine repo.Engine) {
	if a.backends[strategy.MySQL].SetServer(engine.About) {
		a.log.Info("mysql identified", "engine", engine.About, "several_writers", engine.Several)
	}
}
