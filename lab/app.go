package lab

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// An App is an instance of the demonstration in lab mode, or of the order service, in its own process. Each request
// uses a new connection, because the instance may be killed and the transport must send nothing twice.
type App struct {
	*server.Server
	client *loadtest.Client // for the listener for customers
	admin  *loadtest.Client // for the listener for operators
	frozen bool
}

func newApp(server *server.Server) (*App, error) {
	client, err := loadtest.NewClient(server.URL, token, 0)
	if err != nil {
		return nil, err
	}
	admin, err := loadtest.NewClient(server.Admin, token, 0)
	return &App{Server: server, client: client, admin: admin}, err
}

// newShopApp returns an instance of the order service.
func newShopApp(server *server.Server) (*App, error) {
	client, err := checkout.NewClient(server.URL, stack.OrdersSecret, 0)
	if err != nil {
		return nil, err
	}
	admin, err := loadtest.NewClient(server.Admin, "", 0)
	return &App{Server: server, client: client, admin: admin}, err
}

// Stock reads a stock from the instance.
func (a *App) Stock(ctx context.Context, store, sku string) (loadtest.Stock, error) {
	return a.client.Stock(ctx, store, sku)
}

// SeveralWriters reports whether an instance refuses to sell because its MySQL is a cluster with several writers.
func SeveralWriters(mysql loadtest.Backend) bool {
	return !mysql.Up && stack.RefusesWriters(mysql.Reason)
}

// Backends returns the instance's servers, by name.
func (a *App) Backends(ctx context.Context) (map[string]loadtest.Backend, error) {
	return a.admin.Backends(ctx)
}

// heal resumes or restarts an instance that a scenario has frozen or killed.
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

// whereabouts returns the pause point at which a request waits, or "".
func (a *App) whereabouts(ctx context.Context, id string) (point string, since time.Time, err error) {
	var list struct {
		Pauses []struct {
			RequestID string `json:"request_id"`
			Point     string
			Since     time.Time
		}
	}
	if err := a.admin.Call(ctx, http.MethodGet, "/v1/lab/pauses", nil, &list); err != nil {
		return "", time.Time{}, err
	}
	for _, p := range list.Pauses {
		if p.RequestID == id {
			return p.Point, p.Since, nil
		}
	}
	return "", time.Time{}, nil
}

// release resumes a request that waits at a pause point.
func (a *App) release(ctx context.Context, id string) error {
	return a.admin.Call(ctx, http.MethodDelete, "/v1/lab/pauses/"+url.PathEscape(id), nil, nil)
}

// strategies returns the catalogue of the service, by name.
func (a *App) strategies(ctx context.Context) (map[string]Strategy, error) {
	var reply struct{ Strategies []Strategy }
	if err := a.client.Call(ctx, http.MethodGet, "/v1/strategies", nil, &reply); err != nil {
		return nil, err
	}
	byName := make(map[string]Strategy)
	for _, s := range reply.Strategies {
		byName[s.Name] = s
	}
	return byName, nil
}
