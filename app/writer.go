package app

import (
	"context"
	"database/sql"
	"sync/atomic"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/repo/writer"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// A check is a part of a health probe. Its errors match lock.ErrDown.
type check = func(context.Context) error

// readEngine reads which kind of server MySQL is.
func (a *App) readEngine(ctx context.Context, db *sql.DB) error {
	engine, err := writer.ReadEngine(ctx, db)
	if err != nil {
		return err
	}
	if a.backends[strategy.MySQL].SetServer(engine.String()) {
		a.log.Info("mysql identified", "engine", engine.String(), "several_writers", engine.Several)
	}
	a.mysql.several.Store(engine.Several && !a.cfg.MySQL.SeveralWriters)
	return nil
}

// oneWriter wraps ready and canWrite so that instances sell through only one node of a cluster with several writers: on
// every other node the checks fail. commitApart is called with true if the server is such a cluster, and otherwise with
// false. A server with a copy of a cluster's data has the triggers, so it counts as a cluster, too.
func (a *App) oneWriter(db *sql.DB, commitApart func(bool), ready, canWrite check) (check, check) {
	guard := writer.NewGuard(db)
	var guarded atomic.Bool
	prepare := func(ctx context.Context) error {
		if err := a.readEngine(ctx, db); err != nil {
			return err
		}
		exists, err := guard.Exists(ctx)
		if err != nil {
			return err
		}
		if a.cfg.MySQL.SeveralWriters {
			if exists {
				if err := guard.Remove(ctx); err != nil {
					return err
				}
			}
			return ready(ctx)
		}
		on := exists || a.mysql.several.Load()
		guarded.Store(on)
		commitApart(on)
		if !on {
			return ready(ctx)
		}
		if err := guard.Check(ctx); err != nil { // before ready: only at the writer may the schema change
			return err
		}
		if err := ready(ctx); err != nil {
			return err
		}
		return guard.Install(ctx)
	}
	return prepare, func(ctx context.Context) error {
		if guarded.Load() {
			if err := guard.Check(ctx); err != nil {
				return err
			}
		}
		return canWrite(ctx)
	}
}

// A nodeLocal is the MySQL of a lock that exists on only one node of a cluster. It is down on a cluster with several
// writers: holders on two nodes would not exclude each other, and one pool of connections may reach both.
type nodeLocal struct {
	*health.Backend
	several *atomic.Bool
}

// Err returns nil while the lock can be used.
func (n nodeLocal) Err() error {
	if err := n.Backend.Err(); err != nil || !n.several.Load() {
		return err
	}
	return lock.NewDown(n.Name(), "node-local-lock")
}

// Up returns a ctx that ends when the lock can no longer be used. If the lock cannot be used now, the ctx has already
// ended.
func (n nodeLocal) Up() context.Context {
	up := n.Backend.Up()
	if err := n.Err(); err != nil && up.Err() == nil {
		ended, end := context.WithCancelCause(up)
		end(err)
		return ended
	}
	return up
}

// A need is a server that a strategy needs, for its lock.
type need interface {
	service.Dependency
	handler.Backend
	IsAbsent() bool
}

// needsOf returns the servers that the lock of s needs.
func (a *App) needsOf(s strategy.Strategy) (list []need) {
	for _, name := range s.Needs {
		b := a.backends[name]
		if s.NodeLocal {
			list = append(list, nodeLocal{b, &a.mysql.several})
		} else {
			list = append(list, b)
		}
	}
	return list
}
