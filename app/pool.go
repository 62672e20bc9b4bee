package app

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// pool returns db together with its connection pool. It is generic because only repo imports gorm.
func pool[DB interface{ DB() (*sql.DB, error) }](db DB, err error) (DB, *sql.DB, error) {
	var connections *sql.DB
	if err == nil {
		connections, err = db.DB()
	}
	if err != nil {
		return db, nil, fmt.Errorf("open mysql: %w", err)
	}
	return db, connections, nil
}

// readyOnce returns a check of a server. When the server comes up, the check calls ping, ready and canWrite; while it
// is up, only canWrite. ready may take a minute, because a migration takes longer than a probe and may wait for another
// instance's migration; it is canceled when the instance stops.
func (a *App) readyOnce(ping, ready, canWrite func(context.Context) error) func(context.Context) error {
	fresh := true
	return func(ctx context.Context) error {
		var err error
		if fresh {
			if err = ping(ctx); err == nil {
				long, cancel := context.WithTimeout(a.probing, time.Minute)
				defer cancel()
				ctx, err = long, ready(long)
			}
		}
		if err == nil {
			err = canWrite(ctx)
		}
		fresh = err != nil
		return err
	}
}
