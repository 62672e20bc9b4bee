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

// Watch draws who holds the case's lock as its server has it, until the case ends: it asks an instance that is not to be frozen or
// killed. Where the strategy does not tell, nothing is drawn. It is for the eye; no verdict depends on it.
func (b *Bench) Watch(asked *App) {
	url := asked.Admin + "/v1/locks/" + b.Strategy.Name + "/" + b.SKU
	lane := "lock"
	b.Go(func(ctx context.Context) {
		transport := &http.Transport{MaxIdleConns: 1}
		defer transport.CloseIdleConnections()
		holder, since, last := "", time.Time{}, time.Now()
		closed := func(at time.Time) {
			if holder != "" {
				b.event(Event{At: since, Until: at, Lane: lane, Kind: Standing, Who: holder}, "the server has it held by %s", holder)
			}
		}
		defer func() { closed(last) }()
		for {
			asked := time.Now()
			now, ok := ask(ctx, transport, url)
			if ok && now != holder {
				closed(asked)
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

// ask is who holds it: the customer's name. ok is false if nobody can tell.
func ask(ctx context.Context, transport http.RoundTripper, url string) (who string, ok bool) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", false
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return "", false
	}
	defer res.Body.Close()
	var reply struct {
		Holder *struct {
			Who       string
			Instance  string
			RequestID string `json:"request_id"`
		}
	}
	if res.StatusCode != http.StatusOK || json.NewDecoder(res.Body).Decode(&reply) != nil {
		return "", false
	}
	if reply.Holder == nil {
		return "", true
	}
	if i := strings.LastIndexByte(reply.Holder.RequestID, '.'); i >= 0 {
		return reply.Holder.RequestID[i+1:] + " on " + reply.Holder.Instance, true
	}
	return reply.Holder.Who, true
}
