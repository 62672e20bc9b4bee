package orders

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// change reads the idempotency key and the condition of a request that changes a SKU.
func change(c *gin.Context) (key string, only service.Condition, err error) {
	if key, err = handler.IdempotencyKey(c.Request.Header); err == nil {
		only, err = handler.Condition(c.Request.Header)
	}
	return key, only, err
}

func (h *shop) adjustStock(c *gin.Context) {
	f, sku, ok := h.DecodeSKU(c, "delta", "reason")
	if !ok {
		return
	}
	key, only, err := change(c)
	var delta int64
	var reason string
	switch {
	case err != nil:
	case !f.Has("delta"):
		err = handler.Missing("delta")
	default:
		if delta, err = f.Number("delta", 0, -service.MaxStock, service.MaxStock); err == nil {
			reason, err = order.ParseReason(f["reason"])
		}
	}
	if err != nil {
		h.Fail(c, err)
		return
	}
	entry, replayed, err := h.Orders.Adjust(c.Request.Context(), key, sku, delta, reason, only)
	if err != nil {
		h.Fail(c, err)
		return
	}
	handler.Replay(c, replayed)
	handler.SetETag(c, entry.Tag())
	c.JSON(http.StatusOK, entry)
}

// getMovements shows the movements of a SKU. Customers, references and reasons are only for those who may see every
// customer's orders.
func (h *shop) getMovements(c *gin.Context) {
	all := handler.Caller(c).May(access.OrdersAny)
	if !h.Door.AsksCustomers() { // then everybody may be any customer, and only the admin sees them all
		all = c.GetHeader("Authorization") != ""
		if all && !h.Admin(c) {
			return
		}
	}
	f, sku, ok := h.DecodeSKU(c, "cursor", "limit")
	if !ok {
		return
	}
	limit, err := f.Number("limit", 100, 1, service.MaxPage)
	var after int64
	if err == nil {
		after, err = f.Number("cursor", 0, 0, 1<<53)
	}
	var movements []order.Movement
	if err == nil {
		movements, err = h.Orders.Movements(c.Request.Context(), sku, uint64(after), int(limit))
	}
	if err != nil {
		h.Fail(c, err)
		return
	}
	shown := make([]order.Movement, len(movements))
	for i, m := range movements {
		if !all {
			if m.Customer, m.Reason = "", ""; !m.Repairs() { // an audit needs the plan of a repair
				m.Ref = ""
			}
		}
		m.Traceparent = ""
		shown[i] = m
	}
	next := ""
	if len(shown) == int(limit) {
		next = strconv.FormatUint(shown[len(shown)-1].Number, 10)
	}
	handler.LinkNext(c, next)
	c.JSON(http.StatusOK, gin.H{"movements": shown, "next": next})
}

func (h *shop) putPolicy(c *gin.Context) {
	f, sku, ok := h.DecodeSKU(c, "per_customer")
	if !ok {
		return
	}
	if !f.Has("per_customer") {
		h.Fail(c, handler.Missing("per_customer"))
		return
	}
	most, err := f.Number("per_customer", 0, 0, order.MaxPolicy)
	if err == nil {
		err = h.Orders.SetPolicy(c.Request.Context(), sku, most)
	}
	if err != nil {
		h.Fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"sku": sku, "per_customer": most})
}

func (h *shop) getLedger(c *gin.Context, sku service.SKU, only service.Condition) {
	level, err := h.Orders.Level(c.Request.Context(), sku)
	if err == nil && !(service.Condition{Match: only.Match}).Holds(level.Tag()) {
		err = service.ErrPrecondition
	}
	switch {
	case err != nil:
		h.Fail(c, err)
	case !only.Holds(level.Tag()):
		handler.SetETag(c, level.Tag())
		c.Status(http.StatusNotModified)
	default:
		h.ledgerReply(c, level.Counts(sku))
	}
}

// ledgerReply replies with counts, both in the members of a StockReply and as a Law.
func (h *shop) ledgerReply(c *gin.Context, counts order.Counts) {
	if tag := counts.Tag(); tag != "" {
		handler.SetETag(c, tag)
	}
	c.JSON(http.StatusOK, handler.StockReply{
		SKU: counts.SKU, Store: h.Store, Quantity: counts.Available, Initial: counts.Received,
		Sold: counts.Sold, Version: counts.Number, Guard: order.Guard,
		Law: &handler.Law{Received: counts.Received, Available: counts.Available, Reserved: counts.Reserved},
	})
}

// setLedger sets the available stock of a SKU in the ledger. The movement has the difference to the stock before.
func (h *shop) setLedger(c *gin.Context, sku service.SKU, quantity int64, only service.Condition) {
	key, err := handler.IdempotencyKey(c.Request.Header)
	if err != nil {
		h.Fail(c, err)
		return
	}
	entry, replayed, err := h.Orders.Set(c.Request.Context(), key, sku, quantity, only)
	if err != nil {
		h.Fail(c, err)
		return
	}
	handler.Replay(c, replayed)
	h.ledgerReply(c, entry.Counts)
}
