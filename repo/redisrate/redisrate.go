// Package redisrate is a rate limit that all instances share, in Redis.
package redisrate

import (
	"context"
	_ "embed" // the script
	"time"

	"example.com/stock/internal/redisscript"
	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/ratelimit"
)

//go:embed take.lua
var takeLua string

// A Limiter is the ratelimit.Limiter of all instances that share a Redis. Take is one round trip. The key of a customer
// expires when a whole burst is left.
//
// While Redis is down or does not answer in time, each instance decides by itself, so n instances together admit up to
// n times the rate. A rate limit protects the service from a customer; it must not become one more reason for not
// selling.
type Limiter struct {
	redis  *repo.Redis
	script *redisscript.Script
	policy ratelimit.Policy
	needs  service.Dependency
	within time.Duration
	memory *ratelimit.Memory
}

// New makes a Limiter. It decides without Redis while needs, the health of Redis, has an error, and if Redis takes
// longer than within.
func New(r *repo.Redis, p ratelimit.Policy, needs service.Dependency, within time.Duration) *Limiter {
	return &Limiter{
		redis: r, script: redisscript.New(takeLua), policy: p, needs: needs, within: within,
		memory: ratelimit.NewMemory(p),
	}
}

func (l *Limiter) Take(ctx context.Context, customer string) ratelimit.Decision {
	if l.needs.Err() != nil {
		return l.memory.Take(ctx, customer)
	}
	bounded, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	key := "rate:" + customer
	reply, err := l.redis.Run(bounded, "take of the customer's rate", l.script, []string{key},
		l.policy.Every.Microseconds(), (l.policy.Every * time.Duration(l.policy.Burst)).Microseconds())
	if err != nil {
		return l.memory.Take(ctx, customer)
	}
	f := repo.Fields{Key: key, Values: reply}
	ok, debt := f.Integer(1), time.Duration(f.Integer(2))*time.Microsecond
	if f.Err != nil {
		return l.memory.Take(ctx, customer)
	}
	d := l.policy.State(debt)
	d.OK = ok == 1
	return d
}
