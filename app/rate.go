package app

import (
	"example.com/stock/handler"
	"example.com/stock/repo"
	"example.com/stock/repo/redisrate"
	"example.com/stock/service/ratelimit"
	"example.com/stock/service/strategy"
)

// rate returns the limits for proven customers: over all instances in Redis, or without Redis for each instance. A
// request waits for Redis for a tenth of redis.timeout, because it does not need its answer.
func (a *App) rate() handler.Rate {
	r := a.cfg.customerRate()
	if b := a.backends[strategy.Redis]; b == nil || b.IsAbsent() {
		r.Limiter = ratelimit.NewMemory()
	} else {
		r.Limiter = redisrate.New(repo.NewRedis(a.servers.Redis), b, a.cfg.Redis.Timeout/10)
	}
	return r
}

// rateNeeds reports whether the rates of customers are kept in this server.
func (c *Config) rateNeeds(server string) bool {
	r := c.customerRate()
	return server == strategy.Redis && len(c.Redis.Addrs) > 0 && len(r.All)+len(r.Keyed) > 0
}
