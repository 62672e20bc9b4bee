// Package handler is the HTTP side: routes, decoding, replies and problems. It is the only package that knows gin.
package handler

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A Seller deducts stock.
type Seller interface {
	Deduct(context.Context, service.Request) (service.Receipt, error)
}

// An Inventory shows and sets stock. An empty store means the default one.
type Inventory interface {
	Stock(ctx context.Context, store string, sku service.SKU) (service.Stock, error)
	SetStockIf(
		ctx context.Context, store string, sku service.SKU, quantity int64, c service.Condition,
	) (service.Stock, error)
	Orders(ctx context.Context, store string, sku service.SKU, cursor string, limit int) (service.Page, error)
	Settle(ctx context.Context, store string, sku service.SKU, id string) (service.Settlement, error)
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

// A Strategy holds what the routes and GET /v1/strategies need to know of one.
type Strategy struct {
	Name, Endpoint, Summary string
	Stores                  []Store // the default one first
	Promise                 lock.Promise
	Needs                   []Backend // of the lock itself
	RoundTrips              int       // to acquire and release the lock, uncontended; 0: there is no server to ask
}

// A Store is where stock is kept, by name.
type Store struct {
	Name    string
	Backend Backend
}

// Config holds what New and NewAdmin need.
type Config struct {
	Seller     Seller
	Inventory  Inventory
	Locks      Locks
	Pauses     Pauses // of lab mode
	Holds      Holds  // of lab mode
	Steps      Steps  // of lab mode
	Strategies []Strategy
	Backends   []Backend
	Instance   string
	DefaultSKU service.SKU // in a demonstration
	Store      string      // default store, for replies
	ReadyStore string      // in a demonstration: not ready while nothing can be sold from it; empty: from any
	AdminToken string      // empty: nobody is admin
	Lab        bool        // allow the lab's parameters to the admin
	Version    Version
	Meter      Meter
	Metrics    http.Handler
	Log        *slog.Logger
	Draining   func() bool // readiness fails while it is true

	Profile     Profile
	Orders      *order.Service // nil: there are no orders of customers
	OrdersStore string         // where they are kept
}

// A Profile says whom the service is for.
type Profile string

const (
	// Demo is for class: the client chooses the strategy and the store, and need not name a SKU.
	Demo Profile = "demo"
	// Shop is for customers: the client chooses neither strategy nor store, and stock is kept by the ledger of orders.
	// A client that is one of too many is told so by 409 or 429: the service is well.
	Shop Profile = "orders"
)

type handler struct {
	Config
	log          *slog.Logger
	problems     []row
	deductFields []string // of the endpoints of strategies
	began        time.Time
	instance     []string // the header of every reply
}

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 64 << 10

// New makes the handler of the public listener, which customers and load balancers use. What is for operators is not
// there: see NewAdmin.
func New(c Config) http.Handler {
	h, e := newEngine(c)
	for _, s := range c.Strategies {
		e.POST(s.Endpoint, func(c *gin.Context) { h.deduct(c, s.Name) })
	}
	get(e, "/v1/strategies", h.strategies)
	get(e, "/v1/stock/:sku", h.getStock)
	e.PUT("/v1/stock/:sku", h.putStock)
	if len(c.Strategies) > 0 { // the sales of strategies, of which each is one SKU's
		get(e, "/v1/stock/:sku/orders", h.getOrders)
		e.POST("/v1/stock/:sku/orders/:order_id/settle", h.settleOrder)
		e.POST("/v1/stock/:sku/deduct", h.deductResource)
	}
	if c.Orders != nil {
		h.addOrders(e)
	}
	return limits{connectionCloser{e, h.Draining}}
}

// NewAdmin makes the handler of the admin listener: the metrics, the locks, and in lab mode the paused sales. It sells
// nothing. As on the public listener, a change needs the token. Whoever can reach it may read.
func NewAdmin(c Config) http.Handler {
	h, e := newEngine(c)
	get(e, "/v1/locks/:strategy/:key", h.getLock)
	e.DELETE("/v1/locks/:strategy/:key", h.deleteLock)
	if c.Lab {
		get(e, "/v1/lab/pauses", h.getPauses)
		e.PUT("/v1/lab/pauses", h.putPauses)
		e.DELETE("/v1/lab/pauses", h.deletePauses)
		e.PUT("/v1/lab/pauses/:request", h.putPause)
		e.DELETE("/v1/lab/pauses/:request", h.deletePause)
		get(e, "/v1/lab/steps", h.getSteps)
	}
	get(e, "/metrics", gin.WrapH(c.Metrics))
	return limits{connectionCloser{e, h.Draining}}
}

// newEngine adds the routes that both listeners have: the probes, and what the service says of itself.
func newEngine(c Config) (*handler, *gin.Engine) {
	gin.SetMode(gin.ReleaseMode) // gin's own logging is off; ours is structured
	h := &handler{
		Config: c, log: c.Log, problems: table(c.Profile), began: time.Now(),
		instance: []string{c.Instance},
	}
	h.deductFields = slices.Concat([]string{"sku", "quantity", "wait"}, h.choices("store"), labFields)
	e := gin.New()
	e.HandleMethodNotAllowed = true
	// A SKU with an encoded slash is an invalid SKU, not an unknown path.
	e.UseRawPath, e.UnescapePathValues = true, true
	e.RedirectTrailingSlash = false // many clients follow a redirect of a POST with a GET
	_ = e.SetTrustedProxies(nil)
	e.Use(h.identify, h.measure, h.recoverPanic)
	e.NoRoute(func(c *gin.Context) { h.fail(c, errNotFound) })
	e.NoMethod(func(c *gin.Context) { h.fail(c, &methodError{c.Writer.Header().Get("Allow")}) })
	get(e, "/livez", h.livez)
	get(e, "/readyz", h.readyz)
	get(e, "/version", h.version)
	get(e, "/openapi.json", h.openAPI())
	get(e, "/problems/:name", h.explainProblem)
	return h, e
}

// get adds a route for GET and HEAD. net/http leaves the body out of a reply to HEAD.
func get(e *gin.Engine, path string, answer gin.HandlerFunc) {
	e.GET(path, answer)
	e.HEAD(path, answer)
}
