package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"
)

// A Request is one deduction to ask for.
type Request struct {
	Endpoint  string // path of the strategy, such as /deduct_stock_zk
	Store     string // empty: the service's default
	SKU       string
	Quantity  int64
	Wait      *time.Duration // for the lock; nil: the strategy's default; 0: try once
	RequestID string
}

func (r Request) target() string {
	query := url.Values{"sku": {r.SKU}, "quantity": {strconv.FormatInt(r.Quantity, 10)}}
	if r.Store != "" {
		query.Set("store", r.Store)
	}
	if r.Wait != nil {
		query.Set("wait", r.Wait.String())
	}
	return r.Endpoint + "?" + query.Encode()
}

// Deduct asks for one deduction, once, until ctx ends. It has no error: every end of it is an Outcome.
func (c *Client) Deduct(ctx context.Context, r Request) Reply {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), http.MethodPost, c.base+r.target(), nil)
	if err != nil {
		return Reply{Outcome: Failed, Error: err.Error()}
	}
	req.Header.Set("X-Request-Id", r.RequestID)
	ans, err := c.exchange(req)
	switch {
	case err == nil:
		return classify(r, ans)
	case !sent.Load():
		// There was no connection yet, so the service knows nothing of it.
		return Reply{Outcome: Failed, Error: "not sent: " + cause(ctx, err).Error()}
	default:
		// From here on the request may have arrived, and been served, whatever the error says.
		return Reply{Outcome: Unknown, Status: ans.status, Instance: ans.header.Get("X-Instance"), Error: "no whole reply: " + cause(ctx, err).Error()}
	}
}

// cause says why ctx ended, if that is what err means.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// classify says what ans means for r.
func classify(r Request, ans answer) Reply {
	reply := Reply{Status: ans.status, Instance: ans.header.Get("X-Instance")}
	if problem := ans.problem(); problem != nil {
		reply.Outcome, reply.Problem, reply.OrderID, reply.Error = problem.Outcome(), problem.Name(), problem.OrderID, problem.Detail
		return reply // the "instance" of a problem is a path (RFC 9457)
	}
	if ans.status == http.StatusOK {
		if err := reply.accept(r, ans); err != nil {
			// It says yes in words that we do not understand. The orders in the store will tell.
			return Reply{Outcome: Unknown, Status: ans.status, Instance: reply.Instance, Error: err.Error()}
		}
		return reply
	}
	// Nothing of the service's own: a proxy in front of it, or a crash. These three say nothing of what the instance did.
	reply.Outcome = Failed
	switch ans.status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		reply.Outcome = Unknown
	}
	reply.Error = fmt.Sprintf("status %d with %s, which is no reply of a stock service", ans.status, ans.kind())
	return reply
}

// accept takes over the receipt, and says what keeps it from being one for r.
func (reply *Reply) accept(r Request, ans answer) error {
	// Pointers tell an absent version from version 0: two of those would look like a collision.
	var got struct {
		OrderID   string `json:"order_id"`
		SKU       string `json:"sku"`
		Quantity  int64  `json:"quantity"`
		Instance  string `json:"instance"`
		Read      *int64
		Remaining *int64
		Version   *uint64
		Epoch     *uint64
	}
	receipt := new(Receipt)
	if !ans.json() {
		return fmt.Errorf("status 200 with %s, which is no reply of a stock service", ans.kind())
	}
	if err := errors.Join(json.Unmarshal(ans.body, &got), json.Unmarshal(ans.body, receipt)); err != nil {
		return fmt.Errorf("decode receipt: %w", err)
	}
	switch {
	case got.OrderID == "" || got.Read == nil || got.Remaining == nil || got.Version == nil || got.Epoch == nil:
		return errors.New("the receipt lacks order_id, read, remaining, version or epoch")
	case got.SKU != r.SKU || got.Quantity != r.Quantity:
		return fmt.Errorf("the receipt is for %d of %q", got.Quantity, got.SKU)
	}
	reply.Outcome, reply.OrderID, reply.Receipt = Accepted, got.OrderID, receipt
	if reply.Instance == "" {
		reply.Instance = got.Instance
	}
	return nil
}
