package app

import (
	"context"
	"database/sql"
	"fmt"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// mysqlQueue is the number of operations that wait for a connection before further ones get 503 overloaded.
const mysqlQueue = 512

func (a *App) openMySQL() error {
	c := a.cfg.MySQL
	if c.DSN == "" {
		a.withoutStore(strategy.MySQL, "mysql-not-configured")
		return nil
	}
	traced := a.traces.SQL()
	shop, _, err := a.openPool(repo.Pool{Open: c.PoolSize, New: traced})
	if err != nil {
		return err
	}
	// Locks that keep a connection need a separate pool: in a shared one, waiters could take the connections that the
	// holder needs to write.
	_, locks, err := a.openPool(repo.Pool{Open: c.PoolSize, New: traced})
	if err != nil {
		return err
	}
	a.servers.MySQL = locks
	// The health probe has a separate pool, so that it works even if the other pools are busy. Unlike redisProbe, it
	// need not test whether the other pools can connect, because database/sql connects whenever it needs a connection.
	probed, probe, err := a.openPool(repo.Pool{Open: 3, Idle: 1})
	if err != nil {
		return err
	}
	migrator, _, err := a.migrator(context.Background())
	if err != nil {
		return err
	}
	// One connection is reserved for removing waiters from the server's queue.
	queue := repo.NewQueue(c.PoolSize-1, mysqlQueue)
	a.metrics.Queue(strategy.MySQL, queue.Load)
	shop.Behind(queue)
	probed.ProbeOf(shop)
	watched := stock.NewMySQL(probed)
	a.addStore(store{
		name: strategy.MySQL, sales: stock.NewMySQL(shop),
		ping:     probed.OneWriter(c.SingleWriter, a.mysqlIs, probe.PingContext),
		ready:    a.mysqlReady(migrator, watched),
		canWrite: probed.OneWriter(c.SingleWriter, a.mysqlIs, watched.CanWrite),
		data:     service.Trusted{},
	})
	return nil
}

// openPool opens connections to MySQL, over TLS if the DSN says so, until the instance is closed.
func (a *App) openPool(p repo.Pool) (*repo.MySQL, *sql.DB, error) {
	if a.cfg.mysqlTLS() == verifiedTLS {
		secure, err := a.serverTLS()
		if err != nil {
			return nil, nil, err
		}
		p.TLS = secure
	}
	db, err := repo.OpenMySQL(a.cfg.MySQL.DSN, p)
	if err != nil {
		return nil, nil, fmt.Errorf("open mysql: %w", err)
	}
	connections, err := db.DB()
	if err != nil {
		return nil, nil, fmt.Errorf("open mysql: %w", err)
	}
	a.closers = append(a.closers, connections.Close)
	return repo.NewMySQL(db), connections, nil
}

// migrator returns what brings the schema up and down. Its connections are its own, because a migration may take longer
// than the timeouts of a probe.
func (a *App) migrator(ctx context.Context) (*repo.Migrator, *sql.DB, error) {
	db, connections, err := a.openPool(repo.Pool{Open: 2, Idle: 1})
	if err != nil {
		return nil, nil, err
	}
	m, err := repo.NewMigrator(db.On(ctx))
	if err != nil {
		return nil, nil, fmt.Errorf("read the migrations: %w", err)
	}
	return m, connections, nil
}

// mysqlReady returns what makes a database ready whose server has just come up. It brings the schema up to date, and
// seeds a new database before the first request could miss the SKU. A user without the right to change tables can use a
// schema that is up to date.
func (a *App) mysqlReady(m *repo.Migrator, s *stock.MySQL) func(context.Context) error {
	seed := a.cfg.Seed
	return func(ctx context.Context) error {
		if m.Check(ctx) != nil {
			applied, err := m.Up(ctx)
			if len(applied) > 0 {
				a.log.Info("schema brought up", "migrations", len(applied))
			}
			if err != nil {
				return err
			}
		}
		if seed.SKU == "" {
			return nil
		}
		return s.Seed(ctx, service.SKU(seed.SKU), int64(seed.Quantity))
	}
}

// mysqlIs shows and logs what MySQL reports about itself.
func (a *App) mysqlIs(engine repo.Engine) {
	changed := a.backends[strategy.MySQL].SetServer(engine.About)
	if changed {
		a.log.Info("mysql identified", "engine", engine.About, "several_writers", engine.Several)
	}
}
