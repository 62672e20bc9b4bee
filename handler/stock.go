package handler

import (
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// A stockReply is the stock of a SKU.
type stockReply struct {
	SKU      service.SKU `json:"sku"`
	Store    string      `json:"store"`
	Quantity int64       `json:"quantity"`
	Initial  int64       `json:"initial"`
	Sold     int64       `json:"sold"`
	Version  uint64      `json:"version"`
	Epoch    uint64      `json:"epoch"`
	Fence    uint64      `json:"fence"`
	Guard    string      `json:"guard"`
}

type orderReply struct {
	OrderID   string      `json:"order_id"`
	SKU       service.SKU `json:"sku"`
	Quantity  int64       `json:"quantity"`
	Read      int64       `json:"read"`
	Remaining int64       `json:"remaining"`
	Version   uint64      `json:"version"`
	Epoch     uint64      `json:"epoch"`
	Strategy  string      `json:"strategy"`
	Instance  string      `json:"instance"`
	RequestID string      `json:"request_id"`
	Fence     uint64      `json:"fence"`
	Segment   int         `json:"segment,omitempty"`
	CreatedAt time.Time   `json:"created_at"`
}

func (h *handler) decodeStock(
	c *gin.Context, allowed ...string,
) (f fields, sku service.SKU, store string, ok bool) {
	f, err := decode(c, append(allowed, "store")...)
	if err == nil {
		sku, err = service.ParseSKU(c.Param("sku"))
	}
	if err != nil {
		h.fail(c, err)
		return nil, "", "", false
	}
	return f, sku, f["store"], true
}

func (h *handler) getStock(c *gin.Context) {
	_, sku, store, ok := h.decodeStock(c)
	if !ok {
		return
	}
	only, err := condition(c.Request.Header)
	if err != nil {
		h.fail(c, err)
		return
	}
	stock, err := h.Inventory.Stock(c.Request.Context(), store, sku)
	if err == nil && !(service.Condition{Match: only.Match}).Holds(stock.Tag()) {
		err = service.ErrPrecondition
	}
	if err == nil && !only.Holds(stock.Tag()) {
		setETag(c, stock)
		c.Status(http.StatusNotModified)
		return
	}
	h.replyStock(c, store, stock, err)
}

// putStock sets the stock. Conditions in If-Match and If-None-Match must hold.
func (h *handler) putStock(c *gin.Context) {
	f, sku, store, ok := h.decodeStock(c, "quantity")
	if !ok {
		return
	}
	if !f.has("quantity") {
		h.fail(c, service.Invalid("quantity", "missing"))
		return
	}
	quantity, err := f.number("quantity", 0, 0, service.MaxStock)
	if err != nil {
		h.fail(c, err)
		return
	}
	only, err := condition(c.Request.Header)
	if err != nil {
		h.fail(c, err)
		return
	}
	stock, err := h.Inventory.SetStockIf(c.Request.Context(), store, sku, quantity, only)
	h.replyStock(c, store, stock, err)
}

func (h *handler) replyStock(c *gin.Context, store string, s service.Stock, err error) {
	if err != nil {
		h.fail(c, err)
		return
	}
	if store == "" {
		store = h.Store
	}
	setETag(c, s)
	c.JSON(http.StatusOK, stockReply{
		SKU: s.SKU, Store: store, Quantity: s.Quantity, Initial: s.Initial, Sold: s.Sold,
		Version: s.Version, Epoch: s.Epoch, Fence: s.Fence, Guard: s.Guard,
	})
}

func (h *handler) getOrders(c *gin.Context) {
	f, sku, store, ok := h.decodeStock(c, "cursor", "limit")
	if !ok {
		return
	}
	limit, err := f.number("limit", 100, 1, service.MaxPage)
	if err != nil {
		h.fail(c, err)
		return
	}
	page, err := h.Inventory.Orders(c.Request.Context(), store, sku, f["cursor"], int(limit))
	if err != nil {
		h.fail(c, err)
		return
	}
	orders := make([]orderReply, len(page.Orders))
	for i, o := range page.Orders {
		orders[i] = orderOf(o)
	}
	c.JSON(http.StatusOK, gin.H{"orders": orders, "next": page.Next})
}

func orderOf(o service.Order) orderReply {
	return orderReply{
		OrderID: o.ID, SKU: o.SKU, Quantity: o.Quantity, Read: o.Read, Remaining: o.Remaining,
		Version: o.Version, Epoch: o.Epoch, Strategy: o.Strategy, Instance: o.Instance,
		RequestID: o.RequestID, Fence: o.Fence, Segment: o.Segment, CreatedAt: o.CreatedAt.UTC(),
	}
}

// A settlementReply never changes: a repeated request gets the same reply. Final is always true, to tell readers of the
// reply so.
type settlementReply struct {
	OrderID string      `json:"order_id"`
	SKU     service.SKU `json:"sku"`
	Store   string      `json:"store"`
	State   string      `json:"state"` // written or absent
	Final   bool        `json:"final"`
	Order   *orderReply `json:"order,omitempty"` // if written
}

// settleOrder needs no admin token, because only the client of the order and the admin know its id.
func (h *handler) settleOrder(c *gin.Context) {
	_, sku, store, ok := h.decodeStock(c)
	if !ok {
		return
	}
	id := c.Param("order_id")
	s, err := h.Inventory.Settle(c.Request.Context(), store, sku, id)
	if err != nil {
		h.fail(c, err)
		return
	}
	reply := settlementReply{OrderID: id, SKU: sku, Store: store, State: "absent", Final: true}
	if s.Written {
		order := orderOf(s.Order)
		reply.State, reply.Order = "written", &order
	}
	c.JSON(http.StatusOK, reply)
}

// setETag sets the header ETag to the version of the stock in the reply.
func setETag(c *gin.Context, s service.Stock) { c.Header("ETag", `"`+s.Tag()+`"`) }
