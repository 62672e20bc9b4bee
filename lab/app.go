package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
)

// An App is an instance of the service, a process of its own in lab mode.
type App struct {
	*stack.Server
	client *loadtest.Client
	frozen bool
}

// Stock reads a stock from the instance.
func (a *App) Stock(ctx context.Context, store, sku string) (loadtest.Stock, error) {
	return a.client.Stock(ctx, store, sku)
}

// backends returns an error unless the instance reports that all servers that were started are up.
func (a *App) backends(ctx context.Context, from *stack.Stack) error {
	var reply struct {
		Backends map[string]struct {
			Up     bool
			Reason string
		}
	}
	if err := a.call(ctx, http.MethodGet, "/readyz", &reply); err != nil {
		return err
	}
	for name, b := range reply.Backends {
		if !b.Up && from.Server(name) != nil && from.Server(name).Pid() != 0 {
			return fmt.Errorf("%s: %s", name, b.Reason)
		}
	}
	return nil
}

// heal makes an instance that a scenario has frozen or killed serve again.
func (a *App) heal(ctx context.Context) error {
	if a.Pid() == 0 {
		a.frozen = false
		return a.Restart(ctx)
	}
	if !a.frozen {
		return nil
	}
	a.frozen = false
	return a.Resume()
}

// whereabouts returns the pause point at which a request stands, or "".
func (a *App) whereabouts(ctx context.Context, id string) (point string, since time.Time, err error) {
	var list struct {
		Pauses []struct {
			RequestID string `json:"request_id"`
			Point     string
			Since     time.Time
		}
	}
	if err := a.call(ctx, http.MethodGet, "/v1/lab/pauses", &list); err != nil {
		return "", time.Time{}, err
	}
	for _, p := range list.Pauses {
		if p.RequestID == id {
			return p.Point, p.Since, nil
		}
	}
	return "", time.Time{}, nil
}

// release lets a request that stands at a pause point go on.
func (a *App) release(ctx context.Context, id string) error {
	return a.call(ctx, http.MethodDelete, "/v1/lab/pauses/"+url.PathEscape(id), nil)
}

// call sends a request to the instance's listener for operators and decodes the reply into out, if out is not nil. An
// answer other than 200 is an error that tells its status.
func (a *App) call(ctx context.Context, method, path string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.Admin+path, http.NoBody)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	transport := &http.Transport{DisableKeepAlives: true}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s answered %d", method, path, res.StatusCode)
	}
	if out == nil {
		return nil
	}
	return json.NewDecoder(res.Body).Decode(out)
}
