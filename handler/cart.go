package handler

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A purchase is what the requests of customers have in common.
type purchase struct {
	fields
	customer string
	key      string // Idempotency-Key; "": none
	lines    []order.Line
}

// decodePurchase reads a request of a customer, who must be named: in the body, or in the query. With cart, it has
// lines. It answers what is wrong.
func (h *handler) decodePurchase(c *gin.Context, cart bool, allowed ...string) (p purchase, ok bool) {
	var inside nested
	given := false
	if cart {
		inside = nested{"lines": func(d *json.Decoder) (err error) {
			given = true
			p.lines, err = readLines(d)
			return err
		}}
	}
	var err error
	p.fields, err = decodeNested(c, inside, append(allowed, "customer"))
	switch {
	case err != nil:
	case !p.has("customer"):
		err = missing("customer")
	case cart && !given:
		err = missing("lines")
	default:
		p.customer, err = order.ParseCustomer(p.fields["customer"])
	}
	if err == nil {
		p.key, err = idempotencyKey(c.Request.Header)
	}
	if err != nil {
		h.fail(c, err)
		return purchase{}, false
	}
	return p, true
}

// change lets a customer change what is there, and answers with what it is now. do reports whether the answer is
// that of an earlier request with the same key.
func (h *handler) change(
	c *gin.Context, do func(p purchase) (now any, replayed bool, err error), allowed ...string,
) {
	p, ok := h.decodePurchase(c, false, allowed...)
	if !ok {
		return
	}
	now, replayed, err := do(p)
	if err != nil {
		h.fail(c, err)
		return
	}
	replay(c, replayed)
	c.JSON(http.StatusOK, now)
}

func missing(field string) error { return &service.InvalidError{Field: field, Reason: "is missing"} }

// readLines reads the lines of a cart: [{"sku": "book", "quantity": 2}]. The field of an error says which line.
func readLines(d *json.Decoder) (lines []order.Line, err error) {
	bad := &service.InvalidError{
		Field: "lines", Reason: `must be a list of lines, such as [{"sku": "book", "quantity": 2}]`,
	}
	if t, err := d.Token(); err != nil {
		return nil, notJSON(d)
	} else if t != json.Delim('[') {
		return nil, bad
	}
	for i := 0; d.More(); i++ {
		if i == order.MaxLines {
			return nil, &service.InvalidError{
				Field: "lines", Reason: fmt.Sprintf("must be from 1 to %d", order.MaxLines),
			}
		}
		line, err := readLine(d)
		if invalid, ok := errors.AsType[*service.InvalidError](err); ok {
			invalid.Field = fmt.Sprintf("lines[%d].%s", i, invalid.Field)
			return nil, invalid
		}
		lines = append(lines, line)
	}
	if _, err := d.Token(); err != nil {
		return nil, notJSON(d)
	}
	return lines, nil
}

func readLine(d *json.Decoder) (l order.Line, err error) {
	f, allowed := fields{}, []string{"sku", "quantity"}
	if err := f.addObject(d, allowed, nil); err != nil {
		return l, err
	}
	for _, name := range allowed {
		if !f.has(name) {
			return l, missing(name)
		}
	}
	if l.SKU, err = service.ParseSKU(f["sku"]); err == nil {
		l.Quantity, err = f.number("quantity", 0, 1, order.MaxQuantity)
	}
	return l, err
}

// idempotencyKey returns the key of a request, or "".
func idempotencyKey(header http.Header) (string, error) {
	switch values := header.Values(service.KeyHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return service.ParseKey(values[0])
	default:
		return "", &service.InvalidError{Field: service.KeyHeader, Reason: "is given twice"}
	}
}

// replay marks a reply that was kept with its idempotency key.
func replay(c *gin.Context, replayed bool) {
	if replayed {
		c.Header("Idempotent-Replayed", "true")
	}
}
