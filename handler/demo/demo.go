// Package demo is the HTTP side of the demonstration: an endpoint for each strategy, the stock that the strategies
// sell, the locks, and the lab.
package demo

import (
	"context"
	"net/http"
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
}

// A Part has the routes of a demonstration.
type Part struct {
	config Config
	began  time.Time
}

func New(c Config) *Part { return &Part{config: c, began: time.Now()} }

type demo struct {
	*handler.Base
	Config
	part *Part
}

func (p *Part) on(b *handler.Base) *demo { return &demo{b, p.config, p} }

// Public returns the routes for clients.
func (p *Part) Public(b *handler.Base) []handler.Route {
	h := p.on(b)
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	routes := []handler.Route{{get, "/v1/strategies", false, h.strategies}}
	for _, s := range h.Strategies {
		one := func(c *gin.Context) { h.deduct(c, s.Name) }
		routes = append(routes, handler.Route{Method: post, Path: s.Endpoint, Handle: one})
	}
	return append(routes, []handler.Route{
		{get, "/v1/stock/:sku", false, h.getStock},
		{put, "/v1/stock/:sku", true, h.putStock},
		{get, "/v1/stock/:sku/orders", false, h.getOrders},
		{post, "/v1/stock/:sku/orders/:order_id/settle", false, h.settleOrder},
		{post, "/v1/stock/:sku/deduct", false, h.deductResource},
	}...)
}

// Admin returns the locks, and in lab mode the paused sales.
func (p *Part) Admin(b *handler.Base) []handler.Route {
	h := p.on(b)
	const get, put, del = http.MethodGet, http.MethodPut, http.MethodDelete
	routes := []handler.Route{
		{get, "/v1/locks/:strategy/:key", false, h.getLock},
		{del, "/v1/locks/:strategy/:key", true, h.deleteLock},
	}
	if !h.Lab {
		return routes
	}
	return append(routes, []handler.Route{
		{get, "/v1/lab/pauses", true, h.getPauses},
		{put, "/v1/lab/pauses", true, h.putPauses},
		{del, "/v1/lab/pauses", true, h.deletePauses},
		{put, "/v1/lab/pauses/:request", true, h.putPause},
		{del, "/v1/lab/pauses/:request", true, h.deletePause},
		{get, "/v1/lab/steps", true, h.getSteps},
	}...)
}
