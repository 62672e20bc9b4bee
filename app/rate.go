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

// rates returns the limits for proven customers: over all instances in Redis, or without Redis for each instance.
func (a *App) rates() (rates []handler.Rate) {
	for _, r := range a.cfg.customerRates() {
		if len(a.cfg.Redis.Addrs) == 0 {
			r.Limiter = ratelimit.NewMemory(r.Policy)
		} else {
			r.Limiter = redisrate.New(
				repo.NewRedis(a.servers.Redis), r.Policy, a.backends[strategy.Redis], rateWithin)
		}
		rates = append(rates, r)
	}
	return rates
}
