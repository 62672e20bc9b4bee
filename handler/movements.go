package handler

import (
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// decodeSKU reads a request about one SKU of the ledger, which is in one store: the client does not name it.
func (h *handler) decodeSKU(c *gin.Context, allowed ...string) (f fields, sku service.SKU, ok bool) {
	f, err := decode(c, allowed...)
	if err == nil {
		sku, err = service.ParseSKU(c.Param("sku"))
	}
	if err != nil {
		h.fail(c, err)
		return nil, "", false
	}
	return f, sku, true
}

// change reads what a change of a SKU may carry in its header.
func change(c *gin.Context) (key string, only service.Condition, err error) {
	if key, err = idempotencyKey(c.Request.Header); err == nil {
		only, err = condition(c.Request.Header)
	}
	return key, only, err
}

func (h *handler) adjustStock(c *gin.Context) {
	if !h.admin(c) {
		return
	}
	f, sku, ok := h.decodeSKU(c, "delta", "reason")
	if !ok {
		return
	}
	key, only, err := change(c)
	var delta int64
	var reason string
	switch {
	case err != nil:
	case !f.has("delta"):
		err = missing("delta")
	default:
		if delta, err = f.number("delta", 0, -service.MaxStock, service.MaxStock); err == nil {
			reason, err = order.ParseReason(f["reason"])
		}
	}
	if err != nil {
		h.fail(c, err)
		return
	}
	entry, replayed, err := h.Orders.Adjust(c.Request.Context(), key, sku, delta, reason, only)
	if err != nil {
		h.fail(c, err)
		return
	}
	replay(c, replayed)
	c.Header("ETag", `"`+entry.Tag()+`"`)
	c.JSON(http.StatusOK, entry)
}

// getMovements shows the ledger of a SKU. Who bought, and why somebody took units off, is for the admin alone.
func (h *handler) getMovements(c *gin.Context) {
	all := c.GetHeader("Authorization") != ""
	if all && !h.admin(c) {
		return
	}
	f, sku, ok := h.decodeSKU(c, "cursor", "limit")
	if !ok {
		return
	}
	limit, err := f.number("limit", 100, 1, service.MaxPage)
	var after int64
	if err == nil {
		after, err = f.number("cursor", 0, 0, 1<<53)
	}
	var movements []order.Movement
	if err == nil {
		movements, err = h.Orders.Movements(c.Request.Context(), sku, uint64(after), int(limit))
	}
	if err != nil {
		h.fail(c, err)
		return
	}
	shown := make([]order.Movement, len(movements))
	for i, m := range movements {
		if !all {
			m.Ref, m.Customer, m.Reason = "", "", ""
		}
		shown[i] = m
	}
	next := ""
	if len(shown) == int(limit) {
		next = strconv.FormatUint(shown[len(shown)-1].Number, 10)
	}
	linkNext(c, next)
	c.JSON(http.StatusOK, gin.H{"movements": shown, "next": next})
}

func (h *handler) putPolicy(c *gin.Context) {
	if !h.admin(c) {
		return
	}
	f, sku, ok := h.decodeSKU(c, "per_customer")
	if !ok {
		return
	}
	if !f.has("per_customer") {
		h.fail(c, missing("per_customer"))
		return
	}
	most, err := f.number("per_customer", 0, 0, order.MaxPolicy)
	if err == nil {
		err = h.Orders.SetPolicy(c.Request.Context(), sku, most)
	}
	if err != nil {
		h.fail(c, err)
		return
	}
	c.JSON(http.StatusOK, gin.H{"sku": sku, "per_customer": most})
}

// getLedger shows the stock of a SKU as the ledger has it.
func (h *handler) getLedger(c *gin.Context, sku service.SKU, only service.Condition) {
	level, err := h.Orders.Level(c.Request.Context(), sku)
	if err == nil && !(service.Condition{Match: only.Match}).Holds(level.Tag()) {
		err = service.ErrPrecondition
	}
	switch {
	case err != nil:
		h.fail(c, err)
	case !only.Holds(level.Tag()):
		c.Header("ETag", `"`+level.Tag()+`"`)
		c.Status(http.StatusNotModified)
	default:
		h.ledgerReply(c, level.Counts(sku))
	}
}

// ledgerReply shows a level in the words of the stock of a strategy, and in its own.
func (h *handler) ledgerReply(c *gin.Context, counts order.Counts) {
	if tag := counts.Tag(); tag != "" {
		c.Header("ETag", `"`+tag+`"`)
	}
	c.JSON(http.StatusOK, stockReply{
		SKU: counts.SKU, Store: h.OrdersStore, Quantity: counts.Available, Initial: counts.Received,
		Sold: counts.Sold, Version: counts.Number, Guard: order.Guard,
		law: &law{counts.Received, counts.Available, counts.Reserved},
	})
}

// A law is what the stock of a ledger has besides: received = available + reserved + sold.
type law struct {
	Received  int64 `json:"received"`
	Available int64 `json:"available"`
	Reserved  int64 `json:"reserved"`
}

// setLedger sets the stock of a SKU of the ledger: the movement is the difference.
func (h *handler) setLedger(c *gin.Context, sku service.SKU, quantity int64, only service.Condition) {
	key, err := idempotencyKey(c.Request.Header)
	if err != nil {
		h.fail(c, err)
		return
	}
	entry, replayed, err := h.Orders.Set(c.Request.Context(), key, sku, quantity, only)
	if err != nil {
		h.fail(c, err)
		return
	}
	replay(c, replayed)
	h.ledgerReply(c, entry.Counts)
}

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
	*law                 // of a SKU of the ledger
}
