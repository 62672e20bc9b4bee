package lab

import (
	"context"
	"net/http"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// watchEvery is how often the state of the lock is read for the timeline.
const watchEvery = 20 * time.Millisecond

// lockState is the answer of GET /v1/locks/{strategy}/{key}.
type lockState struct {
	Holder *struct {
		Who       string
		Instance  string
		RequestID string `json:"request_id"`
	}
	Waiters []struct{ Who string }
}

// lock asks an instance for the state of the case's lock, as its server has it.
func (b *Testbed) lock(ctx context.Context, from *App) (state lockState, err error) {
	err = from.admin.Call(ctx, http.MethodGet, "/v1/locks/"+b.Strategy.Name+"/"+b.SKU, nil, &state)
	return state, err
}

// Waiting returns the number of waiters for the case's lock, as its server has it, or -1 if it is not known.
func (b *Testbed) Waiting(from *App) int {
	state, err := b.lock(b.Ctx, from)
	if err != nil {
		return -1
	}
	return len(state.Waiters)
}

// Watch draws who holds the case's lock, as its server has it, until the case ends. It reads the state through from, an
// instance that must not be frozen or killed. If the strategy cannot tell, nothing is drawn. No verdict depends on it.
func (b *Testbed) Watch(from *App) {
	b.Go(func(ctx context.Context) {
		holder, since, last := "", time.Time{}, time.Now()
		draw := func(until time.Time) {
			if holder != "" {
				b.record(
					Event{At: since, Until: until, Lane: "lock", Kind: Standing, Who: holder},
					say("says.server-has", "who", holder),
				)
			}
		}
		defer func() { draw(last) }()
		for {
			asked := time.Now()
			if state, err := b.lock(ctx, from); err == nil {
				if now := state.holder(); now != holder {
					draw(asked)
					holder, since = now, asked
				}
				last = asked
			}
			if loadtest.Sleep(ctx, watchEvery) != nil {
				return
			}
		}
	})
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
