// Package ratelimit decides which requests of a customer are admitted, at a bounded rate. Package repo/redisrate
// decides for all instances together.
//
// The algorithm is GCRA, the generic cell rate algorithm (ITU-T I.371): all that is kept of a customer for a policy is
// one time. Unlike a counter of fixed windows it never admits two bursts in a row at the edge of a window.
package ratelimit

import (
	"context"
	"maps"
	"sync"
	"time"
)

// A Policy admits Burst requests at once, and one more every Every.
type Policy struct {
	Name  string        // a customer's requests are counted for each name
	Every time.Duration // at least a microsecond
	Burst int           // at least 1
}

// Whole returns the time after which a customer who asks for nothing has a whole burst again.
func (p Policy) Whole() time.Duration { return p.Every * time.Duration(p.Burst) }

// A Decision is what one policy says of a request.
type Decision struct {
	OK    bool
	Left  int           // requests that would be admitted now
	Retry time.Duration // until the next request is admitted; 0 while one would be admitted now
	Full  time.Duration // until a whole burst would be admitted
}

// A Limiter decides on requests. It is safe for concurrent use.
type Limiter interface {
	// Take decides on one request of a customer, which all policies must admit, and counts it if they do. A refused
	// request counts nothing, so a client that asks too often is admitted at the same rate as one that waits. Take
	// returns a decision for each policy.
	Take(ctx context.Context, customer string, policies ...Policy) []Decision
}

// state returns what is left of a customer whose admitted requests are paid for until debt from now.
func (p Policy) state(debt time.Duration) Decision {
	d := Decision{Left: int((p.Whole() - debt) / p.Every), Full: debt}
	if d.Left == 0 {
		d.Retry = debt + p.Every - p.Whole()
	}
	return d
}

// DecideAll returns what the policies say of a request when those before it are paid for until debts from now, and
// whether all admit it. If they do, they are paid for until debt + Every with the request. Otherwise it counts for
// none.
func DecideAll(policies []Policy, debts []time.Duration) (all []Decision, ok bool) {
	admits := func(i int) bool { return debts[i]+policies[i].Every <= policies[i].Whole() }
	ok = true
	for i := range policies {
		ok = ok && admits(i)
	}
	for i, p := range policies {
		debt := debts[i]
		if ok {
			debt += p.Every
		}
		d := p.state(debt)
		d.OK = admits(i)
		all = append(all, d)
	}
	return all, ok
}

// A Memory is a Limiter of one process.
type Memory struct {
	began time.Time

	mu   sync.Mutex
	paid map[account]time.Duration // since began
	swap int                       // the size of paid at which those who owe nothing are removed
}

type account struct{ policy, customer string }

// NewMemory makes a Memory. It keeps only customers that do not have a whole burst left, so its size is bounded by the
// requests of the last Whole.
func NewMemory() *Memory {
	return &Memory{began: time.Now(), paid: make(map[account]time.Duration), swap: leastSwap}
}

const leastSwap = 1024

func (m *Memory) Take(_ context.Context, customer string, policies ...Policy) []Decision {
	now := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	debts := make([]time.Duration, len(policies))
	for i, p := range policies {
		debts[i] = max(m.paid[account{p.Name, customer}]-now, 0)
	}
	all, ok := DecideAll(policies, debts)
	if ok {
		for i, p := range policies {
			m.paid[account{p.Name, customer}] = now + debts[i] + p.Every
		}
	}
	if len(m.paid) >= m.swap {
		maps.DeleteFunc(m.paid, func(_ account, paid time.Duration) bool { return paid <= now })
		m.paid = maps.Clone(m.paid) // a map keeps its memory when its keys are deleted
		m.swap = max(2*len(m.paid), leastSwap)
	}
	return all
}
