// Package ratelimit decides which requests of a customer are admitted, at a bounded rate. Package repo/redisrate
// decides for all instances together.
//
// The algorithm is GCRA, the generic cell rate algorithm (ITU-T I.371): all that is kept of a customer is one time.
// Unlike a counter of fixed windows it never admits two bursts in a row at the edge of a window.
package ratelimit

import (
	"context"
	"maps"
	"sync"
	"time"
)

// A Policy admits Burst requests at once, and one more every Every.
type Policy struct {
	Every time.Duration // at least a microsecond
	Burst int           // at least 1
}

// A Decision is the answer to one request.
type Decision struct {
	OK    bool
	Left  int           // requests that would be admitted now
	Retry time.Duration // until the next request is admitted; 0 while one would be admitted now
	Full  time.Duration // until a whole burst would be admitted
}

// A Limiter decides on requests. It is safe for concurrent use.
type Limiter interface {
	// Take decides on one request of a customer, and counts it if it is admitted. A refused request counts nothing, so
	// a client that asks too often is admitted at the same rate as one that waits.
	Take(ctx context.Context, customer string) Decision
}

// decide returns the decision on a request at the time now of a customer whose admitted requests are paid for until
// paid, and the time until when they are paid for after it. Both are durations since any fixed moment.
func (p Policy) decide(now, paid time.Duration) (Decision, time.Duration) {
	all := p.Every * time.Duration(p.Burst)
	paid = max(paid, now)
	if after := paid + p.Every; after-now <= all {
		d := p.State(after - now)
		d.OK = true
		return d, after
	}
	return p.State(paid - now), paid
}

// State returns what is left of a customer whose admitted requests are paid for until debt from now.
func (p Policy) State(debt time.Duration) Decision {
	all := p.Every * time.Duration(p.Burst)
	d := Decision{Left: int((all - debt) / p.Every), Full: debt}
	if d.Left == 0 {
		d.Retry = debt + p.Every - all
	}
	return d
}

// A Memory is a Limiter of one process.
type Memory struct {
	policy Policy
	began  time.Time

	mu   sync.Mutex
	paid map[string]time.Duration // since began
	swap int                      // the size of paid at which those who owe nothing are removed
}

// NewMemory makes a Memory. It keeps only customers that do not have a whole burst left, so its size is bounded by the
// requests of the last Every*Burst.
func NewMemory(p Policy) *Memory {
	return &Memory{policy: p, began: time.Now(), paid: make(map[string]time.Duration), swap: leastSwap}
}

const leastSwap = 1024

func (m *Memory) Take(_ context.Context, customer string) Decision {
	now := time.Since(m.began)
	m.mu.Lock()
	defer m.mu.Unlock()
	d, paid := m.policy.decide(now, m.paid[customer])
	m.paid[customer] = paid
	if len(m.paid) >= m.swap {
		maps.DeleteFunc(m.paid, func(_ string, paid time.Duration) bool { return paid <= now })
		m.paid = maps.Clone(m.paid) // a map keeps its memory when its keys are deleted
		m.swap = max(2*len(m.paid), leastSwap)
	}
	return d
}
