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

// rate returns the limit for proven customers: one for all instances in Redis, or without Redis one for each instance.
func (a *App) rate() handler.Rate {
	p, limited := a.cfg.customerRate()
	switch {
	case !limited:
		return handler.Rate{}
	case len(a.cfg.Redis.Addrs) == 0:
		return handler.Rate{Policy: p, Limiter: ratelimit.NewMemory(p)}
	}
	limiter := redisrate.New(repo.NewRedis(a.servers.Redis), p, a.backends[strategy.Redis], rateWithin)
	return handler.Rate{Policy: p, Limiter: limiter}
}
