package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// patience is how much longer than allowed is waited for health, so that the report can say how long it took.
const patience = 45 * time.Second

// healthy waits until every instance reports every server up, and every strategy has sold on every store something that was asked for after
// since. It says how long after since that was, and what came last, or what was still missing when ctx ended.
func (r *run) healthy(ctx context.Context, since time.Time) (h Health) {
	h.LimitMS = ms(r.Within)
	for {
		h.Missing = r.unwell(ctx, since)
		if h.AfterMS = ms(time.Since(since)); len(h.Missing) == 0 {
			return h
		}
		h.Last = h.Missing[0]
		if !sleep(ctx, 50*time.Millisecond) {
			return h
		}
	}
}

func (r *run) unwell(ctx context.Context, since time.Time) (missing []string) {
	for _, l := range r.lanes {
		if !l.soldSince(since) {
			missing = append(missing, fmt.Sprintf("%s sells nothing on %s", l.Name, l.store))
		}
	}
	if len(missing) > 0 {
		return missing // to ask how the instances are twenty times a second would be a load of its own
	}
	for _, i := range r.stand.instances {
		if err := i.ready(ctx); err != nil {
			missing = append(missing, fmt.Sprintf("%s: %v", i.Name, err))
		}
	}
	return missing
}

// ready waits until every instance reports every server up. Package stack starts one that is slow to find its servers all the same.
func (s *stand) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, i := range s.instances {
		for err := i.ready(ctx); err != nil; err = i.ready(ctx) {
			if !sleep(ctx, 50*time.Millisecond) {
				return fmt.Errorf("%s is not ready: %w", i.Name, err)
			}
		}
	}
	return nil
}

// ready wants all servers of the soak up.
func (i *instance) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	res, err := i.seller.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var reply struct {
		Backends map[string]struct {
			Up     bool
			Reason string
		}
	}
	body, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(body, &reply)
	}
	if err != nil {
		return fmt.Errorf("/readyz: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answered %d", res.StatusCode)
	}
	for _, server := range serverNames() {
		if b := reply.Backends[server]; !b.Up {
			return fmt.Errorf("%s is down: %s", server, b.Reason)
		}
	}
	return nil
}
