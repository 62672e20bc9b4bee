package app

import (
	"context"
	"errors"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// permit returns a backend of a strategy, which is down while servers deny what its lock needs. The check is made after
// the servers have come up, until there is a result, and again while they deny it. A right that is revoked later is
// named by the requests that fail.
func (a *App) permit(strategy string, l lock.Locker, servers []*health.Backend) *health.Backend {
	permitted := false
	var denied error // kept until a check has another result: what is denied may have left the key of the check held
	return health.New(strategy, func(ctx context.Context) error {
		for _, server := range servers {
			if server.Err() != nil {
				permitted = false // it may come back as another server, with other rights
				return denied
			}
		}
		if permitted {
			return nil
		}
		err := lock.Check(ctx, l, "check of "+strategy+" by "+a.cfg.Instance)
		// The rest of err may have addresses, and is not for clients.
		if down, is := errors.AsType[*driver.DownError](err); is && down.Denied {
			denied = down
		} else if err == nil {
			permitted, denied = true, nil
		}
		return denied
	})
}

func (a *App) permitChanged(strategy string, denied error) {
	if denied != nil {
		a.log.Error("a server does not permit what a strategy needs", "strategy", strategy,
			"reason", words.Of(denied, handler.Said).EN)
		return
	}
	a.log.Debug("the servers permit what a strategy needs", "strategy", strategy)
}
