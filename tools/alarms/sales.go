package main

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
)

// The endpoints by which customers buy.
const (
	plain  = "/deduct_stock_atomic?sku=" + sku + "&quantity=1" // no lock
	merged = "/deduct_stock_merged?sku=" + sku + "&quantity=1"
	// once takes a lock, and gives up if somebody holds it.
	once     = "/deduct_stock_redisson?sku=" + sku + "&quantity=1&wait=0s"
	watchdog = "/deduct_stock_redisson" // of a sale that stops; see halt
)

// A halted sale waits at a point of its course.
type halted struct {
	b     *bed
	app   *stack.Server
	id    string
	reply chan loadtest.Reply
}

// halt sends a sale that stops at a point, and returns when it has stopped there.
func (b *bed) halt(app *stack.Server, endpoint, store string, lab loadtest.LabOptions) *halted {
	h := &halted{b, app, fmt.Sprintf("halted-%d", time.Now().UnixNano()), make(chan loadtest.Reply, 1)}
	wait := time.Minute
	client := b.client(app)
	b.crowd.Go(func() {
		h.reply <- client.Deduct(b.ctx, loadtest.Request{
			Endpoint: endpoint, Store: store, SKU: sku, Quantity: 1, Wait: &wait, RequestID: h.id, Lab: lab,
		})
	})
	admin := b.operator(app)
	b.eventually("the sale stops at "+lab.Pause[0], func() bool {
		select {
		case reply := <-h.reply:
			b.fatalf("it is answered %d %s %s", reply.Status, reply.Problem, reply.Error)
		default:
		}
		var list struct {
			Pauses []struct {
				RequestID string `json:"request_id"`
			}
		}
		b.must("list the sales that wait", admin.Call(b.ctx, http.MethodGet, "/v1/lab/pauses", nil, &list))
		return slices.ContainsFunc(list.Pauses, func(p struct {
			RequestID string `json:"request_id"`
		},
		) bool {
			return p.RequestID == h.id
		})
	})
	return h
}

// proceed lets the sale go on, and returns its reply.
func (h *halted) proceed() loadtest.Reply {
	err := h.b.operator(h.app).Call(h.b.ctx, http.MethodDelete, "/v1/lab/pauses/"+h.id, nil, nil)
	h.b.must("let the sale go on", err)
	return h.end()
}

// end waits for the reply.
func (h *halted) end() loadtest.Reply {
	b := h.b
	select {
	case reply := <-h.reply:
		return reply
	case <-time.After(patience):
	case <-b.ctx.Done():
	}
	b.fatalf("the sale gets no reply: %w", errTooLong)
	return loadtest.Reply{}
}

// refused wants a reply with that problem.
func (b *bed) refused(reply loadtest.Reply, problem string) {
	if reply.Problem != problem {
		b.fatalf("the sale was answered %d %s, want %s", reply.Status, reply.Problem, problem)
	}
}

// order places an order, and returns the status of the reply.
func (b *bed) order(app *stack.Server) int {
	status, err := b.post(http.DefaultClient, app.URL+"/v1/orders",
		`{"customer":"c","lines":[{"sku":"`+sku+`","quantity":1}]}`)
	b.must("order", err)
	return status
}

// ordered wants an order to be accepted.
func (b *bed) ordered(app *stack.Server) {
	if status := b.order(app); status != http.StatusCreated {
		b.fatalf("an order was answered %d", status)
	}
}
