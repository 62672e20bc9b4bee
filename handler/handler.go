// Package handler is the HTTP side of the service: an endpoint for each strategy, the stock that the strategies sell,
// the locks and the lab, the probes, the one table of problems, and the OpenAPI document.
package handler

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// A Service has the use cases; see [service.Service]. An empty store means the default one.
type Service interface {
	Deduct(context.Context, service.Request) (service.Receipt, error)
	Stock(ctx context.Context, store string, sku service.SKU) (service.Stock, error)
	SetStockIf(
		ctx context.Context, store string, sku service.SKU, quantity int64, c service.Condition,
	) (service.Stock, error)
	Orders(ctx context.Context, store string, sku service.SKU, cursor string, limit int) (service.Page, error)
	Settle(ctx context.Context, store string, sku service.SKU, id string) (service.Settlement, error)
	Lock(ctx context.Context, strategy, key string) (service.Locked, error)
	Evict(ctx context.Context, strategy, key string) (service.Eviction, error)
}

// A Strategy holds what the routes and GET /v1/strategies need of one strategy.
type Strategy struct {
	Name, Endpoint, Summary string
	Stores                  []Store // the default one first
	Promise                 driver.Promise
	Needs                   []Backend // of the lock itself
	// RoundTrips is the number of round trips to acquire and release the lock without contention; 0: the lock needs
	// no server.
	RoundTrips int
}

// A Store is a store that a strategy sells from.
type Store struct {
	Name    string
	Backend Backend
}

// A Backend is a server that the service depends on.
type Backend interface {
	Name() string
	Err() error             // nil: up; else a driver.DownError
	Warning() error         // limits the use of a server that is up; nil: no limit
	Latency() time.Duration // of the last check
	Server() string         // what the server reports about itself; empty: nothing
}

// A Meter counts requests and deductions.
type Meter interface {
	Request(route, method string, status int, took time.Duration)
	Problem(route, method, problem string) // problem: the type in the reply
	Ready(bool)                            // called before every reply with metrics
	Deduction(strategy, outcome string)    // outcome: accepted, replayed, or the type of the problem
}

// Config holds what New and NewAdmin need.
type Config struct {
	Service Service

	Strategies []Strategy
	DefaultSKU service.SKU // of requests that name none
	Store      string      // default store, for replies
	ReadyStore string      // the instance is ready only while this store can be sold from; empty: any store
	Backends   []Backend

	Admins Tokens
	Lab    bool           // the admin may send the lab's parameters
	Pauses Pauses         // of lab mode
	Steps  *service.Steps // of lab mode

	Instance string
	Version  Version
	Meter    Meter
	Metrics  http.Handler
	Log      *slog.Logger
	Draining func() bool // readiness fails while it is true

	Traces     trace.TracerProvider // nil: requests are not traced
	TracePaths bool                 // paths may leave the process: they have SKUs and orders
}

// A handler handles the requests of one listener.
type handler struct {
	Config
	problems []row
	instance []string  // name of the instance, a header of every reply
	began    time.Time // the steps of lab mode are numbered from then on
	document []byte    // what GET /openapi.json replies
}

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 64 << 10

// New makes the handler of the public listener, for clients and load balancers. The routes for operators are those of
// NewAdmin.
func New(c Config) http.Handler {
	h := newHandler(c)
	return h.engine(h.public())
}

// NewAdmin makes the handler of the admin listener: metrics, the locks, and in lab mode the paused sales. It sells
// nothing.
func NewAdmin(c Config) http.Handler {
	h := newHandler(c)
	return h.engine(h.operators())
}

func newHandler(c Config) *handler {
	document, err := describe(c.Strategies)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return &handler{
		Config: c, problems: table(), instance: []string{c.Instance}, began: time.Now(), document: document,
	}
}

// engine makes the handler of a listener.
func (h *handler) engine(routes []route) http.Handler {
	gin.SetMode(gin.ReleaseMode) // gin's own logging is off; ours is structured
	e := gin.New()
	e.HandleMethodNotAllowed = true
	// A SKU with an encoded slash is an invalid SKU, not an unknown path.
	e.UseRawPath, e.UnescapePathValues = true, true
	e.RedirectTrailingSlash = false // many clients follow a redirect of a POST with a GET
	_ = e.SetTrustedProxies(nil)
	e.Use(h.identify)
	if h.Traces != nil {
		e.Use(h.trace())
	}
	e.Use(h.measure, h.recoverPanic)
	e.NoRoute(func(c *gin.Context) { h.fail(c, errNotFound) })
	e.NoMethod(func(c *gin.Context) { h.fail(c, &methodError{c.Writer.Header().Get("Allow")}) })
	h.add(e, routes)
	return limits{e, h.Draining}
}
