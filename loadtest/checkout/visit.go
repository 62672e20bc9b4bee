package checkout

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/stock/loadtest"
)

// A sale is the part of a run with customers.
type sale struct {
	plan    Plan
	shops   []*loadtest.Client
	run     string
	weights []float64 // running sum, of the SKUs
	clock   loadtest.Clock

	requests atomic.Int64

	mu   sync.Mutex
	open []pending // requests without a certain outcome
}

// A pending request is sent again at the end of the run, with the same key.
type pending struct {
	visit   *visit
	ask     Ask
	request int
	attempt int // made so far
}

// A visit is one visit of a customer. Its choices depend only on the seed and the visit's number.
type visit struct {
	*sale
	number, worker int
	out            chan<- Record // of each attempt
	way            Way
	customer       string
	dice           *rand.Rand
	keys           int // made so far
}

// visitsStream separates the random numbers of visits from others of the same seed.
const visitsStream = 0xc4ec

func (s *sale) visit(number, worker int) *visit {
	v := &visit{sale: s, number: number, worker: worker}
	v.dice = rand.New(rand.NewPCG(s.plan.Seed+visitsStream, uint64(number)))
	// Visits of one customer have successive numbers, so that they overlap.
	v.customer = customerOf(s.run, number)
	n := v.dice.IntN(100)
	for _, w := range ways() {
		if v.way = w.way; n < w.share {
			break
		}
		n -= w.share
	}
	return v
}

// customerOf returns the customer of a visit.
func customerOf(run string, visit int) string {
	return fmt.Sprintf("%s-c%d", run, (visit-1)/visitsEach+1)
}

// call makes a visit, which is a call of the generator.
func (s *sale) call(ctx, flight context.Context, c loadtest.Call, out chan<- Record) (pause time.Duration) {
	v := s.visit(c.N, c.Worker)
	v.out = out
	// The token is there before the first request, so that making it counts for no reply. If there is none, each
	// attempt says so.
	_ = s.shops[0].Ready(ctx, v.customer)
	v.make(ctx, flight)
	return time.Millisecond // limits the visits to a shop that is down
}

// cart returns random lines. A SKU may be in it twice.
func (v *visit) cart() []Line {
	names := v.plan.Names()
	lines := make([]Line, 1+v.dice.IntN(v.plan.Lines))
	for i := range lines {
		lines[i] = Line{
			loadtest.Pick(v.dice, names, v.weights), v.plan.Quantities[v.dice.IntN(len(v.plan.Quantities))],
		}
	}
	return lines
}

func (v *visit) key() string {
	v.keys++
	return fmt.Sprintf("%s-v%d-%d", v.run, v.number, v.keys)
}

// sometimesKey returns a key or "", for idempotent requests.
func (v *visit) sometimesKey() string {
	if v.dice.IntN(3) == 0 {
		return ""
	}
	return v.key()
}

// hold is the ttl of a reservation that must not expire during a visit, however slow the service. It is short enough
// that abandoned units become available again.
const hold = 10 * time.Minute

// seconds returns d as the service counts it.
func seconds(d time.Duration) int64 { return int64(d / time.Second) }

func (v *visit) make(ctx, flight context.Context) {
	switch v.way {
	case Buy, Regret, MisuseKey:
		key := v.key()
		cart := v.cart()
		o, ok := v.ask(ctx, flight, Ask{Op: OpPlace, Customer: v.customer, Key: key, Lines: cart})
		switch {
		case !ok:
		case v.way == Regret:
			v.cancel(ctx, flight, o)
		case v.way == MisuseKey:
			other := slices.Clone(cart)
			other[0].Quantity++
			v.ask(ctx, flight, Ask{Op: OpPlace, Customer: v.customer, Key: key, Lines: other, Misuse: true})
		}
	case Deliver:
		names := v.plan.Names()
		sku := names[v.dice.IntN(len(names))]
		v.ask(ctx, flight, Ask{Op: OpDeliver, Key: v.key(), Ref: sku, Lines: []Line{{sku, 1 + v.dice.Int64N(5)}}})
	default:
		v.reserve(ctx, flight)
	}
}

func (v *visit) cancel(ctx, flight context.Context, o *Thing) {
	v.ask(ctx, flight, Ask{Op: OpCancel, Customer: v.customer, Key: v.sometimesKey(), Ref: o.OrderID})
}

// reserve makes the visits that begin with a reservation.
func (v *visit) reserve(ctx, flight context.Context) {
	ttl := hold
	expires := slices.Contains([]Way{Forget, PayLate, LastTick}, v.way)
	if expires {
		ttl = v.plan.TTL
	}
	asked := time.Now()
	r, ok := v.ask(ctx, flight, Ask{
		Op: OpReserve, Customer: v.customer, Key: v.key(), Lines: v.cart(), TTL: seconds(ttl),
	})
	if !ok {
		return
	}
	about := func(op Op) Ask {
		return Ask{Op: op, Customer: v.customer, Key: v.sometimesKey(), Ref: r.ReservationID}
	}
	switch v.way {
	case Pay, Return:
		o, ok := v.ask(ctx, flight, about(OpConfirm))
		if ok && v.way == Return {
			v.cancel(ctx, flight, o)
		}
	case Leave:
		v.ask(ctx, flight, about(OpRelease))
	case Think:
		// An extension without a key is not idempotent: it counts from the attempt.
		a := about(OpExtend)
		a.Key, a.TTL = v.key(), seconds(hold+time.Minute)
		if _, ok := v.ask(ctx, flight, a); ok {
			v.ask(ctx, flight, about(OpConfirm))
		}
	case PayLate:
		_ = loadtest.Sleep(ctx, ttl+time.Duration(v.dice.IntN(600))*time.Millisecond)
		v.ask(ctx, flight, about(OpConfirm))
	case LastTick:
		// The reservation began between asked and now, by our clock, so the confirmation comes at about its expiry.
		early := time.Duration(v.dice.IntN(int(max(2*time.Since(asked), 20*time.Millisecond))))
		_ = loadtest.Sleep(ctx, ttl-early)
		v.ask(ctx, flight, about(OpConfirm))
	case TwoTabs:
		var tabs sync.WaitGroup
		confirm, release := about(OpConfirm), about(OpRelease)
		other := *v
		other.dice = rand.New(rand.NewPCG(v.dice.Uint64(), 0))        // a source is not safe for concurrent use
		behind := time.Duration(v.dice.IntN(3000)) * time.Microsecond // so that either may be first
		tabs.Go(func() {
			_ = loadtest.Sleep(ctx, behind)
			other.ask(ctx, flight, release)
		})
		v.ask(ctx, flight, confirm)
		tabs.Wait()
	}
}

// ask sends a request until its outcome is certain or Plan.Patience is over. Sometimes a reply is lost, and sometimes
// the customer repeats a request after a reply. ok reports whether it succeeded.
func (v *visit) ask(ctx, flight context.Context, a Ask) (got *Thing, ok bool) {
	request := int(v.requests.Add(1))
	began, unsure := time.Now(), false
	for attempt := 1; ; attempt++ {
		var cut *time.Duration
		if attempt == 1 && v.dice.Float64() < v.plan.Lost {
			// Most steps take a few milliseconds, so some connections break before the step, and some after it.
			cut = new(time.Duration(v.dice.IntN(12_000)) * time.Microsecond)
		}
		r := v.attempt(flight, a, request, attempt, cut)
		v.out <- r
		switch r.Outcome {
		case Done:
			if v.dice.IntN(20) == 0 {
				again := v.attempt(flight, a, request, attempt+1, nil)
				again.Again = true
				v.out <- again
			}
			return r.Got, true
		case Refused:
			if unsure {
				// An earlier attempt may still be in progress, and succeed after this refusal.
				v.later(pending{v, a, request, attempt})
			}
			return nil, false
		case Unknown:
			unsure = true
		}
		if ctx.Err() != nil || time.Since(began) > v.plan.Patience {
			if unsure {
				v.later(pending{v, a, request, attempt})
			}
			return nil, false
		}
		if !r.Cut {
			_ = loadtest.Sleep(ctx, time.Duration(20+v.dice.IntN(180))*time.Millisecond)
		}
	}
}

func (v *visit) later(p pending) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.open = append(v.open, p)
}

func (v *visit) attempt(ctx context.Context, a Ask, request, attempt int, cut *time.Duration) Record {
	ctx, cancel := context.WithTimeoutCause(ctx, v.plan.Timeout, fmt.Errorf("nothing came for %v", v.plan.Timeout))
	defer cancel()
	// Attempts of one request go to different instances, if there are several.
	shop := v.shops[(request+attempt)%len(v.shops)]
	sent := v.clock.Now()
	r := Send(ctx, shop, a, cut, fmt.Sprintf("%s-%d.%d", v.run, request, attempt))
	r.Request, r.Attempt, r.Worker, r.Visit, r.Way = request, attempt, v.worker, v.number, v.way
	r.SentAt, r.DoneAt = sent, v.clock.Now()
	return r
}

// settle repeats the requests without a certain outcome, with the same keys, until all are settled or ctx ends.
func (s *sale) settle(ctx context.Context, each func(*Record)) {
	var mu sync.Mutex
	var all errgroup.Group
	all.SetLimit(16)
	for _, p := range s.open {
		all.Go(func() error {
			p.repeat(ctx, func(r *Record) { mu.Lock(); each(r); mu.Unlock() })
			return nil
		})
	}
	_ = all.Wait()
	s.open = nil
}

// repeat sends the request again until its outcome is certain or ctx ends.
func (p *pending) repeat(ctx context.Context, each func(*Record)) {
	for {
		p.attempt++
		r := p.visit.attempt(context.WithoutCancel(ctx), p.ask, p.request, p.attempt, nil)
		r.Settling = true
		each(&r)
		if r.Outcome == Done || r.Outcome == Refused || loadtest.Sleep(ctx, 200*time.Millisecond) != nil {
			return
		}
	}
}

// ours reports whether a customer is one of the run.
func ours(customer, run string) bool { return strings.HasPrefix(customer, run+"-c") }

// ofRun reports whether a key is one of the run.
func ofRun(key, run string) bool { return strings.HasPrefix(key, run+"-v") }
