// Package demo is the HTTP side of the demonstration: an endpoint for each strategy, the stock that the strategies
// sell, the locks, and the lab.
package demo

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
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

// Public returns the routes for clients. A sale of a strategy names no customer, so it is for those who may act for
// every customer.
func (p *Part) Public(b *handler.Base) []handler.Route {
	h := p.on(b)
	on := handler.NewRoute
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	sell := handler.Needs(access.OrdersAny)
	read, write := handler.Needs(access.StockRead), handler.Needs(access.StockWrite)
	routes := []handler.Route{on(get, "/v1/strategies", read, h.strategies)}
	for _, s := range h.Strategies {
		one := func(c *gin.Context) { h.deduct(c, s.Name) }
		routes = append(routes, on(post, s.Endpoint, sell, one))
	}
	if !h.Fixed {
		routes = append(routes,
			on(get, "/v1/stock/:sku", read, h.getStock),
			on(put, "/v1/stock/:sku", write, h.putStock),
		)
	}
	if len(h.Strategies) > 0 { // sales of strategies, which are of one SKU each
		routes = append(routes,
			on(get, "/v1/stock/:sku/orders", sell, h.getOrders),
			on(post, "/v1/stock/:sku/orders/:order_id/settle", sell, h.settleOrder),
			on(post, "/v1/stock/:sku/deduct", sell, h.deductResource),
		)
	}
	return routes
}

// Admin returns the locks, and in lab mode the paused sales.
func (p *Part) Admin(b *handler.Base) []handler.Route {
	h := p.on(b)
	on := handler.NewRoute
	const get, put, del = http.MethodGet, http.MethodPut, http.MethodDelete
	lab := handler.Needs(access.Lab)
	routes := []handler.Route{
		on(get, "/v1/locks/:strategy/:key", handler.Needs(access.StockRead), h.getLock),
		on(del, "/v1/locks/:strategy/:key", handler.Needs(access.LocksEvict), h.deleteLock),
	}
	if !h.Lab {
		return routes
	}
	return append(routes, []handler.Route{
		on(get, "/v1/lab/pauses", lab, h.getPauses),
		on(put, "/v1/lab/pauses", lab, h.putPauses),
		on(del, "/v1/lab/pauses", lab, h.deletePauses),
		on(put, "/v1/lab/pauses/:request", lab, h.putPause),
		on(del, "/v1/lab/pauses/:request", lab, h.deletePause),
		on(get, "/v1/lab/steps", lab, h.getSteps),
	}...)
}

// choices returns names, the fields by which a client chooses store and strategy, or nil if c is Fixed.
func (c *Config) choices(names ...string) []string {
	if c.Fixed {
		return nil
	}
	return names
}
