package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"example.com/stock/loadtest"
)

// replyLimit is how long a customer waits. It is longer than the wait and work limits of the instances, and than most
// pauses.
const replyLimit = 12 * time.Second

// A request is one order. It is not loadtest.Request, which cannot hold a lock for longer.
type request struct {
	endpoint, store, sku, id string
	quantity                 int64
	hold                     time.Duration // between read and write
	// write even if the lease was lost, as code does which does not check: only the fence can stop it
	ignoreLoss bool
}

// A seller sends requests to one instance.
type seller struct {
	base      string
	transport *http.Transport
}

func newSeller(base string) *seller {
	return &seller{
		base,
		&http.Transport{MaxIdleConnsPerHost: 512, DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext},
	}
}

func (s *seller) close() { s.transport.CloseIdleConnections() }

// sell sends a request once. Whatever happens is an outcome.
func (s *seller) sell(ctx context.Context, r request) loadtest.Reply {
	ctx, cancel := context.WithTimeoutCause(ctx, replyLimit, fmt.Errorf("no reply within %v", replyLimit))
	defer cancel()
	query := url.Values{"sku": {r.sku}, "store": {r.store}, "quantity": {strconv.FormatInt(r.quantity, 10)}}
	if r.hold > 0 {
		query.Set("hold", r.hold.String())
	}
	if r.ignoreLoss {
		query.Set("heed_loss", "off")
	}
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	ctx = httptrace.WithClientTrace(ctx, trace)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+r.endpoint+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return loadtest.Reply{Outcome: loadtest.Failed, Error: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Request-Id", r.id)
	res, err := s.transport.RoundTrip(req)
	if err != nil {
		if !sent.Load() {
			return loadtest.Reply{Outcome: loadtest.Failed, Problem: "not sent", Error: err.Error()}
		}
		return loadtest.Reply{Outcome: loadtest.Unknown, Problem: "no reply", Error: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return loadtest.Reply{
			Outcome: loadtest.Unknown,
			Status:  res.StatusCode,
			Problem: "no whole reply",
			Error:   err.Error(),
		}
	}
	return classify(res, body)
}

// classify returns the outcome of a reply. A reply that is not understood may have sold: its outcome is unknown.
func classify(res *http.Response, body []byte) loadtest.Reply {
	reply := loadtest.Reply{Status: res.StatusCode, Instance: res.Header.Get("X-Instance"), Outcome: loadtest.Unknown}
	if res.StatusCode == http.StatusOK {
		var sale struct {
			OrderID string `json:"order_id"`
			loadtest.Receipt
		}
		err := json.Unmarshal(body, &sale)
		if err == nil && sale.OrderID == "" {
			err = errors.New("a receipt without an order")
		}
		if err != nil {
			reply.Problem, reply.Error = "broken reply", err.Error()
			return reply
		}
		reply.Outcome, reply.OrderID, reply.Receipt = loadtest.Accepted, sale.OrderID, &sale.Receipt
		return reply
	}
	var problem loadtest.Problem
	if err := json.Unmarshal(body, &problem); err != nil || !strings.HasPrefix(problem.Type, "/problems/") {
		reply.Problem, reply.Error = "broken reply", fmt.Sprintf("status %d with %.80q", res.StatusCode, body)
		return reply
	}
	reply.Outcome, reply.Problem = problem.Outcome(), problem.Name()
	reply.OrderID, reply.Error = problem.OrderID, problem.Detail
	return reply
}
