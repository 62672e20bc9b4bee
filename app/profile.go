package app

import (
	"fmt"
	"slices"
	"strings"

	"example.com/stock/service/strategy"
)

// Values of the setting profile.
const (
	demoProfile   = "demo"
	ordersProfile = "orders"
)

const atomicOrders = "atomic"

// checkProfile returns an error for every key that names an unknown or disabled strategy or store.
func (c *Config) checkProfile() (bad []error) {
	no := func(key, why string, pairs ...any) { bad = append(bad, wrong(key, why, pairs...)) }
	if c.Profile != demoProfile && c.Profile != ordersProfile {
		no("profile", "none-of", "value", quote(c.Profile), "list", demoProfile+", "+ordersProfile)
	}
	for _, name := range c.Stores.Enabled {
		if !slices.Contains(stores(), name) {
			no("stores.enabled", "none-of", "value", quote(name), "list", strings.Join(stores(), ", "))
		}
	}
	if !c.storeEnabled(c.Store) {
		no("stores.enabled", "default-store", "value", quote(c.Store))
	}
	for _, name := range c.Strategies.Enabled {
		if s, err := strategy.Lookup(name); err != nil {
			bad = append(bad, fmt.Errorf("strategies.enabled: %w", err))
		} else if len(c.storesOf(s)) == 0 {
			no("strategies.enabled", "other-store", "strategy", name, "list", strings.Join(s.Stores, ", "))
		}
	}
	if c.Orders.Strategy != atomicOrders {
		if _, err := FindLock(c.Orders.Strategy); err != nil {
			no("orders.strategy", "orders-strategy", "atomic", atomicOrders, "why", err)
		}
	}
	return bad
}

// forCustomers reports whether the service is for customers, so that somebody must prove who they are.
func (c *Config) forCustomers() bool { return c.Profile == ordersProfile }

// inLab reports whether the lab may switch protections off. The profile orders has no lab.
func (c *Config) inLab() bool { return c.Lab && c.Profile != ordersProfile }

func stores() []string { return []string{strategy.Redis, strategy.MySQL} }

func (c *Config) storeEnabled(name string) bool {
	switch {
	case len(c.Stores.Enabled) > 0:
		return slices.Contains(c.Stores.Enabled, name)
	case c.Profile == ordersProfile:
		return name == c.Store
	}
	return true
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

// strategies returns the strategies that have an endpoint.
func (c *Config) strategies() []strategy.Strategy {
	return slices.DeleteFunc(strategy.All(), func(s strategy.Strategy) bool {
		all := len(c.Strategies.Enabled) == 0 && c.Profile != ordersProfile
		return !all && !slices.Contains(c.Strategies.Enabled, s.Name) || len(c.storesOf(s)) == 0
	})
}

// locked returns the strategy whose lock orders are sold under, or false if orders need no lock.
func (c *Config) locked() (strategy.Strategy, bool) {
	if c.Orders.Strategy == atomicOrders {
		return strategy.Strategy{}, false
	}
	s, err := FindLock(c.Orders.Strategy)
	return s, err == nil
}

// needs reports whether an enabled feature needs this server.
func (c *Config) needs(server string) bool {
	if c.Relay.Enabled && c.relayNeeds(server) || c.rateNeeds(server) {
		return true
	}
	if slices.Contains(stores(), server) && c.storeEnabled(server) {
		return true
	}
	if s, ok := c.locked(); ok && slices.Contains(s.Needs, server) {
		return true
	}
	return slices.ContainsFunc(c.strategies(), func(s strategy.Strategy) bool {
		return slices.Contains(s.Needs, server)
	})
}
