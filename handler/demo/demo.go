// Package demo is the HTTP side of the demonstration: an endpoint for each strategy, the stock that the strategies
// sell, the locks, and the lab.
package demo

import (
	"context"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/service"
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

// A Ledger handles requests about the ledger's stock. Store is the name of the store of this stock.
type Ledger interface {
	Store() string
	GetStock(b *handler.Base, c *gin.Context, sku service.SKU, only service.Condition)
	SetStock(b *handler.Base, c *gin.Context, sku service.SKU, quantity int64, only service.Condition)
}

// A Meter counts deductions.
type Meter interface {
	Deduction(strategy, outcome string) // outcome: accepted, or the type of the problem
}

// A Strategy holds what the routes and GET /v1/strategies need of one strategy.
type Strategy struct {
	Name, Endpoint, Summary string
	Stores                  []Store // the default one first
	Promise                 lock.Promise
	Needs                   []handler.Backend // of the lock itself
	// RoundTrips is the number of round trips to acquire and release the lock without contention; 0: the lock needs
	// no server.
	RoundTrips int
}

// A Store is a store that a strategy sells from.
type Store struct {
	Name    string
	Backend handler.Backend
}

// Config holds what New needs.
type Config struct {
	Seller     Seller
	Inventory  Inventory
	Locks      Locks
	Pauses     Pauses // of lab mode
	Holds      Holds  // of lab mode
	Steps      Steps  // of lab mode
	Strategies []Strategy
	DefaultSKU service.SKU
	Store      string // default store, for replies
	ReadyStore string // the instance is ready only while this store can be sold from; empty: any store
	Lab        bool   // the admin may send the lab's parameters
	Meter      Meter
	Ledger     Ledger // nil: no orders are sold
	// Fixed means that the client must name the SKU, and can choose neither store nor strategy. The ledger's Part then
	// shows and sets the stock.
	Fixed bool
}

// A Part has the routes of a demonstration.
type Part struct {
	config       Config
	deductFields []string // allowed at the endpoints of strategies
	began        time.Time
}

func New(c Config) *Part {
	p := &Part{config: c, began: time.Now()}
	p.deductFields = slices.Concat([]string{"sku", "quantity", "wait"}, c.choices("store"), labFields)
	return p
}

type demo struct {
	*handler.Base
	Config
	part *Part
}

func (p *Part) on(b *handler.Base) *demo { return &demo{b, p.config, p} }

// Public adds the routes for clients.
func (p *Part) Public(b *handler.Base, e *gin.Engine) {
	h := p.on(b)
	for _, s := range h.Strategies {
		e.POST(s.Endpoint, func(c *gin.Context) { h.deduct(c, s.Name) })
	}
	handler.Get(e, "/v1/strategies", h.strategies)
	if !h.Fixed {
		handler.Get(e, "/v1/stock/:sku", h.getStock)
		e.PUT("/v1/stock/:sku", h.putStock)
	}
	if len(h.Strategies) > 0 { // endpoints of strategies, which sell one SKU at a time
		handler.Get(e, "/v1/stock/:sku/orders", h.getOrders)
		e.POST("/v1/stock/:sku/orders/:order_id/settle", h.settleOrder)
		e.POST("/v1/stock/:sku/deduct", h.deductResource)
	}
}

// Admin adds the locks, and in lab mode the paused sales.
func (p *Part) Admin(b *handler.Base, e *gin.Engine) {
	h := p.on(b)
	handler.Get(e, "/v1/locks/:strategy/:key", h.getLock)
	e.DELETE("/v1/locks/:strategy/:key", h.deleteLock)
	if h.Lab {
		handler.Get(e, "/v1/lab/pauses", h.getPauses)
		e.PUT("/v1/lab/pauses", h.putPauses)
		e.DELETE("/v1/lab/pauses", h.deletePauses)
		e.PUT("/v1/lab/pauses/:request", h.putPause)
		e.DELETE("/v1/lab/pauses/:request", h.deletePause)
		handler.Get(e, "/v1/lab/steps", h.getSteps)
	}
}

// choices returns names, the fields by which a client chooses store and strategy, or nil if c is Fixed.
func (c *Config) choices(names ...string) []string {
	if c.Fixed {
		return nil
	}
	return names
}
