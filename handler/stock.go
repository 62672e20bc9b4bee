package handler

import (
	"cmp"
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

// decodeStock returns the fields of a request, with the SKU in its path.
func decodeStock(c *gin.Context, allowed ...string) (fields, service.SKU, error) {
	f, err := decode(c, append(allowed, "store")...)
	if err != nil {
		return nil, "", err
	}
	sku, err := service.ParseSKU(c.Param("sku"))
	return f, sku, err
}

func (h *handler) getStock(c *gin.Context) error {
	f, sku, err := decodeStock(c)
	if err != nil {
		return err
	}
	only, err := condition(c.Request.Header)
	if err != nil {
		return err
	}
	stock, err := h.Service.Stock(c.Request.Context(), f["store"], sku)
	if err != nil {
		return err
	}
	matches := service.Condition{Match: only.Match}
	switch {
	case !matches.Holds(stock.Tag()):
		return service.ErrPrecondition
	case !only.Holds(stock.Tag()):
		setETag(c, stock)
		c.Status(http.StatusNotModified)
	default:
		h.replyStock(c, f["store"], stock)
	}
	return nil
}

// putStock sets the stock. Conditions in If-Match and If-None-Match must hold.
func (h *handler) putStock(c *gin.Context) error {
	f, sku, err := decodeStock(c, "quantity")
	if err != nil {
		return err
	}
	if !f.has("quantity") {
		return service.Invalid("quantity", "missing")
	}
	quantity, err := f.number("quantity", 0, 0, service.MaxStock)
	if err != nil {
		return err
	}
	only, err := condition(c.Request.Header)
	if err != nil {
		return err
	}
	stock, err := h.Service.SetStockIf(c.Request.Context(), f["store"], sku, quantity, only)
	if err != nil {
		return err
	}
	h.replyStock(c, f["store"], stock)
	return nil
}

func (h *handler) replyStock(c *gin.Context, store string, s service.Stock) {
	setETag(c, s)
	c.JSON(http.StatusOK, stockReply{
		SKU: s.SKU, Store: cmp.Or(store, h.Store), Quantity: s.Quantity, Initial: s.Initial, Sold: s.Sold,
		Version: s.Version, Epoch: s.Epoch, Fence: s.Fence, Guard: s.Guard,
	})
}

func (h *handler) getOrders(c *gin.Context) error {
	f, sku, err := decodeStock(c, "cursor", "limit")
	if err != nil {
		return err
	}
	limit, err := f.number("limit", 100, 1, service.MaxPage)
	if err != nil {
		return err
	}
	page, err := h.Service.Orders(c.Request.Context(), f["store"], sku, f["cursor"], int(limit))
	if err != nil {
		return err
	}
	orders := make([]orderReply, len(page.Orders))
	for i, o := range page.Orders {
		orders[i] = orderOf(o)
	}
	c.JSON(http.StatusOK, gin.H{"orders": orders, "next": page.Next})
	return nil
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
func (h *handler) settleOrder(c *gin.Context) error {
	f, sku, err := decodeStock(c)
	if err != nil {
		return err
	}
	id, store := c.Param("order_id"), f["store"]
	s, err := h.Service.Settle(c.Request.Context(), store, sku, id)
	if err != nil {
		return err
	}
	reply := settlementReply{OrderID: id, SKU: sku, Store: store, State: "absent", Final: true}
	if s.Written {
		order := orderOf(s.Order)
		reply.State, reply.Order = "written", &order
	}
	c.JSON(http.StatusOK, reply)
	return nil
}

// setETag sets the header ETag to the version of the stock in the reply.
func setETag(c *gin.Context, s service.Stock) { c.Header("ETag", `"`+s.Tag()+`"`) }
