package orders

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/handler/access"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A purchase holds the common fields of customers' requests.
type purchase struct {
	handler.Fields
	customer string
	key      string // Idempotency-Key; "": none
	lines    []order.Line
}

// decodePurchase reads a customer's request. With cart, it also reads lines. If the request is invalid, it replies with
// a problem.
func (h *shop) decodePurchase(c *gin.Context, cart bool, allowed ...string) (p purchase, ok bool) {
	var inside handler.Nested
	given := false
	if cart {
		inside = handler.Nested{"lines": func(d *json.Decoder) (err error) {
			given = true
			p.lines, err = readLines(d)
			return err
		}}
	}
	var err error
	p.Fields, err = handler.DecodeNested(c, inside, append(allowed, "customer"))
	if err == nil {
		p.customer, err = h.customer(c, p.Fields)
	}
	if err == nil && cart && !given {
		err = handler.Missing("lines")
	}
	if err == nil {
		p.key, err = handler.IdempotencyKey(c.Request.Header)
	}
	if err != nil {
		h.Fail(c, err)
		return purchase{}, false
	}
	return p, true
}

// customer returns the customer of a request. A token proves its own customer; who may act for every customer names
// one in the body or the query.
func (h *shop) customer(c *gin.Context, f handler.Fields) (string, error) {
	caller := handler.Caller(c)
	own, any := caller.Subject != "" && caller.May(access.OrdersOwn), caller.May(access.OrdersAny)
	named := f.Has("customer")
	switch {
	case any && named:
		return order.ParseCustomer(f["customer"])
	case any && !own:
		return "", handler.Missing("customer")
	case named && f["customer"] != caller.Subject:
		return "", handler.ErrNotYours
	}
	customer, err := order.ParseCustomer(caller.Subject)
	if err != nil {
		err = access.NoCustomer()
	}
	return customer, err
}

// change calls do to change an order or a reservation of the customer, and replies with the result. replayed means
// that the result repeats that of an earlier request with the same key.
func (h *shop) change(
	c *gin.Context, do func(p purchase) (now any, replayed bool, err error), allowed ...string,
) {
	p, ok := h.decodePurchase(c, false, allowed...)
	if !ok {
		return
	}
	now, replayed, err := do(p)
	if err != nil {
		h.Fail(c, err)
		return
	}
	handler.Replay(c, replayed)
	c.JSON(http.StatusOK, now)
}

// readLines reads the lines of a cart: [{"sku": "book", "quantity": 2}]. The field of an error includes the index of
// the line.
func readLines(d *json.Decoder) (lines []order.Line, err error) {
	bad := service.Invalid("lines", "lines", "example", `[{"sku": "book", "quantity": 2}]`)
	if t, err := d.Token(); err != nil {
		return nil, handler.NotJSON(d)
	} else if t != json.Delim('[') {
		return nil, bad
	}
	for i := 0; d.More(); i++ {
		if i == order.MaxLines {
			return nil, service.Invalid("lines", "from-to", "least", 1, "most", order.MaxLines)
		}
		line, err := readLine(d)
		if invalid, ok := errors.AsType[*service.InvalidError](err); ok {
			invalid.Field = fmt.Sprintf("lines[%d].%s", i, invalid.Field)
			return nil, invalid
		}
		lines = append(lines, line)
	}
	if _, err := d.Token(); err != nil {
		return nil, handler.NotJSON(d)
	}
	return lines, nil
}

func readLine(d *json.Decoder) (l order.Line, err error) {
	f, allowed := handler.Fields{}, []string{"sku", "quantity"}
	if err := f.AddObject(d, allowed, nil); err != nil {
		return l, err
	}
	for _, name := range allowed {
		if !f.Has(name) {
			return l, handler.Missing(name)
		}
	}
	if l.SKU, err = service.ParseSKU(f["sku"]); err == nil {
		l.Quantity, err = f.Number("quantity", 0, 1, order.MaxQuantity)
	}
	return l, err
}
