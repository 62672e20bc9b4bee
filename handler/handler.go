// Package handler is the HTTP side: routes, decoding, replies and problems. It is the only package that knows gin.
package handler

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A Seller deducts stock.
type Seller interface {
	Deduct(context.Context, service.Request) (service.Receipt, error)
}

// A Stockroom shows and sets stock. store "" is the default one.
type Stockroom interface {
	Stock(ctx context.Context, store string, sku service.SKU) (service.Stock, error)
	SetStock(ctx context.Context, store string, sku service.SKU, quantity int64) (service.Stock, error)
	Orders(ctx context.Context, store string, sku service.SKU, cursor string, limit int) (service.Page, error)
}

// A Backend is a server that the service depends on.
type Backend interface {
	Name() string
	Err() error             // nil: up; else a lock.DownError
	Warning() error         // up, but not for everything; nil: for everything
	Latency() time.Duration // of the last check
}

// A Meter counts.
type Meter interface {
	Request(route, method string, status int, took time.Duration)
	Deduction(strategy, outcome string) // outcome: accepted, or the type of the problem
}

// A Strategy is what the routes and GET /v1/strategies need to know of one.
type Strategy struct {
	Name, Endpoint, Summary string
	Stores                  []Store // the default one first
	Promise                 lock.Promise
	RoundTrips              int       // to acquire the lock and to release it, uncontended; 0: there is no server to ask
	Needs                   []Backend // of the lock itself
}

// A Store is where stock is kept, by name.
type Store struct {
	Name    string
	Backend Backend
}

// Config is what a handler is made of.
type Config struct {
	Seller     Seller
	Stockroom  Stockroom
	Locks      Locks
	Pauses     Pauses // of lab mode
	Strategies []Strategy
	Backends   []Backend
	Instance   string
	DefaultSKU service.SKU
	Store      string // default store, for replies
	AdminToken string // empty: nobody is admin
	Lab        bool   // allow the lab's parameters to the admin
	Version    Version
	Meter      Meter
	Metrics    http.Handler
	Log        *slog.Logger
	Draining   func() bool // readiness fails while it is true
}

type handler struct {
	Config
	log *slog.Logger
}

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 64 << 10

// New makes the HTTP handler of one instance.
func New(c Config) http.Handler {
	gin.SetMode(gin.ReleaseMode) // gin's own logging is off; ours is structured
	h := &handler{c, c.Log}
	e := gin.New()
	e.HandleMethodNotAllowed = true
	e.UseRawPath, e.UnescapePathValues = true, true // so that a SKU with an encoded slash is an invalid SKU, not an unknown path
	_ = e.SetTrustedProxies(nil)
	e.Use(h.identify, h.measure, h.recoverPanic)
	e.NoRoute(func(c *gin.Context) {
		h.problem(c, errNotFound, problem{Detail: "There is nothing here. GET /openapi.json lists what there is."})
	})
	e.NoMethod(func(c *gin.Context) {
		h.problem(c, errMethod, problem{Detail: "Use " + c.Writer.Header().Get("Allow") + "."})
	})

	for _, s := range c.Strategies {
		e.POST(s.Endpoint, func(c *gin.Context) { h.deduct(c, s.Name, h.DefaultSKU) })
	}
	v1 := e.Group("/v1")
	v1.GET("/strategies", h.strategies)
	v1.GET("/stock/:sku", h.getStock)
	v1.PUT("/stock/:sku", h.putStock)
	v1.GET("/stock/:sku/orders", h.getOrders)
	v1.POST("/stock/:sku/deduct", h.deductResource)
	v1.GET("/locks/:strategy/:key", h.getLock)
	v1.DELETE("/locks/:strategy/:key", h.deleteLock)
	if c.Lab {
		v1.GET("/lab/pauses", h.getPauses)
		v1.DELETE("/lab/pauses/:request", h.deletePause)
	}

	e.GET("/livez", h.livez)
	e.GET("/readyz", h.readyz)
	e.GET("/version", func(c *gin.Context) { c.JSON(http.StatusOK, h.Version) })
	e.GET("/metrics", gin.WrapH(c.Metrics))
	e.GET("/openapi.json", h.openAPI())
	e.GET("/problems/:name", h.explainProblem)
	return parting{e, h.Draining}
}
