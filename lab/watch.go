package lab

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"example.com/stock/loadtest"
)

// watchEvery is the interval at which the timeline reads the state of the lock.
const watchEvery = 20 * time.Millisecond

// lockState is the answer of GET /v1/locks/{strategy}/{key}.
type lockState struct {
	Holder *struct {
		Who       string
		Instance  string
		RequestID string `json:"request_id"`
		// nil: the lock has no lease
		RemainingMS *float64 `json:"remaining_ms"`
	}
	Waiters []struct{ Who string }
}

// lock reads the state of the case's lock from its server, through an instance.
func (b *Testbed) lock(ctx context.Context, from *App) (state lockState, err error) {
	err = from.admin.Call(ctx, http.MethodGet, "/v1/locks/"+b.Strategy.Name+"/"+b.SKU, nil, &state)
	return state, err
}

// Waiting returns the number of waiters for the case's lock on its server, or -1 if it is unknown.
func (b *Testbed) Waiting(from *App) int {
	state, err := b.lock(b.Ctx, from)
	if err != nil {
		return -1
	}
	return len(state.Waiters)
}

// Holding returns 1 if the case's lock is held on its server, and otherwise 0.
func (b *Testbed) Holding(from *App) int {
	if state, err := b.lock(b.Ctx, from); err != nil || state.Holder == nil {
		return 0
	}
	return 1
}

// askBound is the timeout for reading the state of the lock, because a frozen instance never replies.
const askBound = time.Second

// A lockWatch records the holders of the case's lock.
type lockWatch struct {
	from   atomic.Pointer[App] // the instance that is asked; nil: the watch has ended
	looked chan struct{}       // closed after the first read
}

// Watch records, until the case ends, who holds the case's lock according to its server. It reads the state through
// from, an instance that must not be frozen or killed. Nothing is recorded for a strategy that cannot be inspected. No
// verdict depends on it.
//
// When a holder waits at a pause point, the testbed starts a watch through another instance by itself. A scenario calls
// Watch only if that is too late or would use the wrong instance.
func (b *Testbed) Watch(from *App) {
	if b.watch == nil || b.watch.from.Load() == nil {
		b.watch = b.watchLock(from)
	}
	b.watch.from.Store(from)
}

// watchHolder starts a watch when a holder waits at a pause point, because the case is about the lease of that holder.
// It asks another instance, since the scenario may freeze the holder's.
func (b *Testbed) watchHolder(of *App) {
	if !b.Promise.Exclusive || b.Promise.Scope != loadtest.Cluster || b.watch != nil {
		return
	}
	from := of
	if i := slices.IndexFunc(b.apps, func(a *App) bool { return a != of }); i >= 0 {
		from = b.apps[i]
	}
	b.watch = b.watchLock(from)
	select { // wait for the first read, so that the lease begins before the fault
	case <-b.watch.looked:
	case <-b.Ctx.Done():
	}
}

func (b *Testbed) watchLock(from *App) *lockWatch {
	w := &lockWatch{looked: make(chan struct{})}
	w.from.Store(from)
	b.Go(func(ctx context.Context) {
		holder, since, last := "", time.Time{}, time.Now()
		var lease []TTL
		draw := func(until time.Time) {
			if holder != "" {
				b.timeline.Record(
					CaseEvent{At: since, Until: until, Lane: "lock", Kind: Standing, Who: holder, TTL: lease},
					say("says.server-has", "who", on(holder)),
				)
			}
		}
		for first := true; ; first = false {
			from, asked := w.from.Load(), time.Now()
			if from == nil {
				return
			}
			state, err := b.lockSoon(ctx, from)
			if first {
				close(w.looked)
			}
			if err == nil {
				seen := time.Now() // drawn when seen, so that it follows its cause
				if now := state.holder(); now != holder {
					draw(asked)
					holder, since, lease = now, seen, nil
				}
				if state.Holder != nil && state.Holder.RemainingMS != nil {
					lease = runDown(lease, TTL{seen.UTC(), *state.Holder.RemainingMS})
				}
				last = seen
			}
			if loadtest.Sleep(ctx, watchEvery) != nil {
				draw(last)
				return
			}
		}
	})
	return w
}

func (b *Testbed) lockSoon(ctx context.Context, from *App) (lockState, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	return b.lock(ctx, from)
}

// holder returns the customer who holds the lock, or "".
func (s lockState) holder() string {
	if s.Holder == nil {
		return ""
	}
	if i := strings.LastIndexByte(s.Holder.RequestID, '.'); i >= 0 {
		return s.Holder.RequestID[i+1:] + " on " + s.Holder.Instance
	}
	return s.Holder.Who
}

// renewed is how much later a lease must end to count as renewed. Smaller differences come from the round trips.
const renewed = 100 * time.Millisecond

// runDown adds a TTL to those of a lease. Between two renewals it keeps only the first and the last.
func runDown(lease []TTL, now TTL) []TTL {
	end := func(t TTL) time.Time { return t.At.Add(time.Duration(t.Left * float64(time.Millisecond))) }
	if n := len(lease); n >= 2 && end(now).Sub(end(lease[n-1])) < renewed &&
		end(lease[n-1]).Sub(end(lease[n-2])) < renewed {
		lease = lease[:n-1]
	}
	return append(lease, now)
}

// on returns the holder of a lock and its instance, in both languages.
func on(holder string) Text {
	who, app, ok := strings.Cut(holder, " on ")
	if !ok {
		return same(holder)
	}
	return Text{EN: holder, ZH: who + "（" + app + "）"}
}
