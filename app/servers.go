package app

import (
	"slices"

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

// stores returns the names of the stores, the default one first.
func stores() []string { return []string{strategy.Redis, strategy.MySQL} }

// storesOf returns the stores that s works on, that of requests that name none first.
func (c *Config) storesOf(s strategy.Strategy) []string {
	list := slices.Clone(s.Stores)
	if len(list) == 0 {
		list = stores()
	}
	if i := slices.Index(list, c.Store); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}
