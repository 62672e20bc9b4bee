package app

import (
	"slices"

	"example.com/stock/service/strategy"
)

func stores() []string { return []string{strategy.Redis, strategy.MySQL} }

func (c *Config) storeEnabled(name string) bool {
	return len(c.Stores.Enabled) == 0 || slices.Contains(c.Stores.Enabled, name)
}

// storesOf returns the enabled stores that s works on, the default one first.
func (c *Config) storesOf(s strategy.Strategy) []string {
	list := s.Stores
	if len(list) == 0 {
		list = stores()
	}
	list = slices.DeleteFunc(slices.Clone(list), func(name string) bool { return !c.storeEnabled(name) })
	if i := slices.Index(list, c.Store); i > 0 {
		list[0], list[i] = list[i], list[0]
	}
	return list
}

// strategies returns the strategies that have an endpoint: those that work on an enabled store.
func (c *Config) strategies() []strategy.Strategy {
	return slices.DeleteFunc(strategy.All(), func(s strategy.Strategy) bool { return len(c.storesOf(s)) == 0 })
}

// needs reports whether an enabled store or strategy needs this server.
func (c *Config) needs(server string) bool {
	if slices.Contains(stores(), server) && c.storeEnabled(server) {
		return true
	}
	return slices.ContainsFunc(c.strategies(), func(s strategy.Strategy) bool {
		return slices.Contains(s.Needs, server)
	})
}
