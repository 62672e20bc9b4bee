package app

import (
	"time"

	"example.com/stock/handler"
	"example.com/stock/repo"
	"example.com/stock/repo/redisrate"
	"example.com/stock/service/ratelimit"
	"example.com/stock/service/strategy"
)

// rateWithin is how long a request waits for Redis to decide on the customer's rate.
const rateWithin = 100 * time.Millisecond

// rate returns the limits for proven customers: over all instances in Redis, or without Redis for each instance.
func (a *App) rate() handler.Rate {
	r := a.cfg.customerRate()
	if len(a.cfg.Redis.Addrs) == 0 {
		r.Limiter = ratelimit.NewMemory()
	} else {
		r.Limiter = redisrate.New(repo.NewRedis(a.servers.Redis), a.backends[strategy.Redis], rateWithin)
	}
	return r
}
