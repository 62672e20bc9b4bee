package app

import (
	"example.com/stock/service/strategy"
)

// An opener opens the clients of one server.
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
