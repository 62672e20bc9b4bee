package loadtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
)

// saw is what a sale of quantity units tells of what it read and wrote. Of one that is told, the other follows.
func (s sight) saw(doc any, quantity int64, before *past) (r Receipt, err error) {
	if s.read.empty() && s.remaining.empty() || before == nil {
		return Receipt{Blind: true}, nil
	}
	if !s.read.empty() {
		if r.Read, err = s.read.whole(doc); err != nil {
			return Receipt{Blind: true}, fmt.Errorf("%w (read)", err)
		}
		r.Remaining = r.Read - quantity
	}
	if !s.remaining.empty() {
		if r.Remaining, err = s.remaining.whole(doc); err != nil {
			return Receipt{Blind: true}, fmt.Errorf("%w (remaining)", err)
		}
		if s.read.empty() {
			r.Read = r.Remaining + quantity
		}
	}
	if r.Read > before.initial {
		return Receipt{Blind: true}, fmt.Errorf("tells of %d units when only %d were put in stock: somebody adds stock, or the place is wrong", r.Read, before.initial)
	}
	r.Version = uint64(before.initial - r.Read)
	return r, nil
}

// Deduct asks for one deduction, once.
func (m *Mapped) Deduct(ctx context.Context, r Request) Reply {
	v := m.values(r.SKU)
	v[varQuantity], v[varRequest] = strconv.FormatInt(r.Quantity, 10), r.RequestID
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	req, err := m.request(httptrace.WithClientTrace(ctx, trace), &m.deduct.question, v)
	if err != nil {
		return Reply{Outcome: Failed, Error: err.Error()}
	}
	req.Header.Set("X-Request-Id", r.RequestID)
	if req.Body == http.NoBody && req.Method == http.MethodGet {
		// A GET without a body is sent again by itself when the server closes the connection, and would sell twice.
		req.Body = io.NopCloser(strings.NewReader(""))
	}
	ans, err := m.wire.exchange(req)
	switch {
	case err == nil:
		return m.classify(r, ans)
	case !sent.Load():
		return Reply{Outcome: Failed, Error: "not sent: " + cause(ctx, err).Error()}
	default:
		return Reply{Outcome: Unknown, Status: ans.status, Error: "no whole reply: " + cause(ctx, err).Error()}
	}
}

// classify says what ans means for r. What the mapping does not know is a failure only if the status says that the request was
// refused (4xx); anything else may have sold.
func (m *Mapped) classify(r Request, ans answer) Reply {
	doc := document(ans.body)
	reply := Reply{Status: ans.status, Instance: ans.header.Get("X-Instance")}
	if name, ok := m.deduct.instance.scalar(doc); ok && !m.deduct.instance.empty() {
		reply.Instance = name
	}
	var meant []Outcome
	for _, o := range []struct {
		Outcome
		*rule
	}{{Accepted, m.deduct.accepted}, {SoldOut, m.deduct.soldOut}, {Busy, m.deduct.busy}} {
		if o.matches(ans.status, doc) {
			meant = append(meant, o.Outcome)
		}
	}
	switch {
	case len(meant) > 1:
		reply.Outcome, reply.Error = Unknown, fmt.Sprintf("status %d means %v by the mapping, which cannot both be", ans.status, meant)
	case len(meant) == 0:
		reply.Outcome, reply.Error = Unknown, fmt.Sprintf("status %d with %s, which the mapping does not know: %s", ans.status, ans.kind(), ans.beginning())
		if ans.status >= 400 && ans.status < 500 && ans.status != http.StatusRequestTimeout {
			reply.Outcome = Failed
		}
	case meant[0] == Accepted:
		if err := m.accept(&reply, r, doc); err != nil {
			return Reply{Outcome: Unknown, Status: ans.status, Instance: reply.Instance, Error: fmt.Sprintf("accepted, but the reply %v: %s", err, ans.beginning())}
		}
	default:
		reply.Outcome = meant[0]
	}
	return reply
}

// accept takes over what the reply tells.
func (m *Mapped) accept(reply *Reply, r Request, doc any) error {
	reply.OrderID = r.RequestID // stands in where the API names no orders
	if !m.deduct.orderID.empty() {
		id, ok := m.deduct.orderID.scalar(doc)
		if !ok || id == "" {
			return fmt.Errorf("has nothing at %s (deduct.order_id)", m.deduct.orderID.text)
		}
		reply.OrderID = id
	}
	saw, err := m.deduct.saw(doc, r.Quantity, m.past(r.SKU))
	if err != nil {
		return err
	}
	reply.Outcome, reply.Receipt = Accepted, &saw
	return nil
}
