// Package redisrate is a rate limit that all instances share, in Redis.
package redisrate

import (
	"context"
	_ "embed" // the script
	"encoding/base64"
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
	needs  service.Dependency
	within time.Duration
	memory *ratelimit.Memory
}

// New makes a Limiter. It decides without Redis while needs, the health of Redis, has an error, and if Redis takes
// longer than within.
func New(r *repo.Redis, needs service.Dependency, within time.Duration) *Limiter {
	return &Limiter{
		redis: r, script: redisscript.New(takeLua), needs: needs, within: within, memory: ratelimit.NewMemory(),
	}
}

func (l *Limiter) Take(ctx context.Context, customer string, policies ...ratelimit.Policy) []ratelimit.Decision {
	if l.needs.Err() != nil {
		return l.memory.Take(ctx, customer, policies...)
	}
	bounded, cancel := context.WithTimeout(ctx, l.within)
	defer cancel()
	// A Cluster puts keys with the same text in braces on one node. A name of any characters is no such text.
	name := base64.RawURLEncoding.EncodeToString([]byte(customer))
	var keys []string
	var args []any
	for _, p := range policies {
		keys = append(keys, "rate:{"+name+"}:"+p.Name)
		args = append(args, p.Every.Microseconds(), p.Whole().Microseconds())
	}
	reply, err := l.redis.Run(bounded, "take of the customer's rate", l.script, keys, args...)
	if err != nil {
		return l.memory.Take(ctx, customer, policies...)
	}
	f, debts := repo.Fields{Key: keys[0], Values: reply}, make([]time.Duration, len(policies))
	for i := range debts {
		debts[i] = time.Duration(f.Integer(i+1)) * time.Microsecond
	}
	if f.Err != nil {
		return l.memory.Take(ctx, customer, policies...)
	}
	all, _ := ratelimit.DecideAll(policies, debts)
	return all
}
