package app

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/go-sql-driver/mysql"
)

// beforeMySQL returns what prepares each connection to MySQL: it gives it the user, the password and the certificates
// that the files have then.
func (a *App) beforeMySQL() (func(context.Context, *mysql.Config) error, error) {
	c := a.cfg.MySQL
	secure, err := a.dialer("mysql.tls.", c.TLS, 0)
	if err != nil {
		return nil, err
	}
	dsn, err := reread(a, "mysql.dsn", c.DSN, func(text string) (*mysql.Config, error) {
		dsn, err := mysql.ParseDSN(text)
		if err != nil {
			err = failure("dsn") // the driver's error may quote the password
		}
		return dsn, err
	})
	return func(_ context.Context, next *mysql.Config) error {
		now := dsn()
		next.User, next.Passwd = now.User, now.Passwd
		if secure != nil {
			next.TLS = secure.Client(next.Addr)
		}
		return nil
	}, err
}

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
