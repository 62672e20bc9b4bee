package lab

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// watchEvery is how often the server is asked who holds the lock, for the timeline.
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

// lockPath is where an instance tells of the case's lock, as its server has it.
func (b *Testbed) lockPath() string { return "/v1/locks/" + b.Strategy.Name + "/" + b.SKU }

// Waiting returns how many wait for the case's lock, as its server has it; -1 if that is not known.
func (b *Testbed) Waiting(from *App) int {
	var state lockState
	if err := from.call(b.Ctx, http.MethodGet, b.lockPath(), &state); err != nil {
		return -1
	}
	return len(state.Waiters)
}

// Watch draws who holds the case's lock as its server has it, until the case ends. It asks from, an instance that is not
// to be frozen or killed. Where the strategy does not tell, nothing is drawn. It is for the eye; no verdict depends on it.
func (b *Testbed) Watch(from *App) {
	url := from.Admin + b.lockPath()
	b.Go(func(ctx context.Context) {
		transport := &http.Transport{MaxIdleConns: 1}
		defer transport.CloseIdleConnections()
		holder, since, last := "", time.Time{}, time.Now()
		draw := func(until time.Time) {
			if holder != "" {
				b.record(Event{At: since, Until: until, Lane: "lock", Kind: Standing, Who: holder}, say("says.server-has", "who", holder))
			}
		}
		defer func() { draw(last) }()
		for {
			asked := time.Now()
			now, ok := askHolder(ctx, transport, url)
			if ok && now != holder {
				draw(asked)
				holder, since = now, asked
			}
			if ok {
				last = asked
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(watchEvery):
			}
		}
	})
}

// askHolder returns the customer who holds the lock, "" for none. ok is false if that is not known.
func askHolder(ctx context.Context, transport http.RoundTripper, url string) (who string, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", false
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	var state lockState
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&state) != nil {
		return "", false
	}
	if state.Holder == nil {
		return "", true
	}
	if i := strings.LastIndexByte(state.Holder.RequestID, '.'); i >= 0 {
		return state.Holder.RequestID[i+1:] + " on " + state.Holder.Instance, true
	}
	return state.Holder.Who, true
}
