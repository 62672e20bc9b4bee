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

// replyLimit is how long a customer waits: longer than wait and work of the instances and than most pauses.
const replyLimit = 12 * time.Second

// An ask is one request. Package loadtest's own client does not ask for the lab's long critical sections, or this
// would be it.
type ask struct {
	endpoint, store, sku, id string
	quantity                 int64
	hold                     time.Duration // between read and write
	// write even if the lease was lost, as code does that does not look; only the fence is left
	heedless bool
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

// sell asks once. Every end of it is an outcome.
func (s *seller) sell(ctx context.Context, a ask) loadtest.Reply {
	ctx, cancel := context.WithTimeoutCause(ctx, replyLimit, fmt.Errorf("no reply within %v", replyLimit))
	defer cancel()
	query := url.Values{"sku": {a.sku}, "store": {a.store}, "quantity": {strconv.FormatInt(a.quantity, 10)}}
	if a.hold > 0 {
		query.Set("hold", a.hold.String())
	}
	if a.heedless {
		query.Set("heed_loss", "off")
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(
		ctx,
		&httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }},
	)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+a.endpoint+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return loadtest.Reply{Outcome: loadtest.Failed, Error: err.Error()}
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("X-Request-Id", a.id)
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

// classify says what a reply means. What is not understood may have sold.
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
	reply.Outcome, reply.Problem, reply.OrderID, reply.Error = problem.Outcome(), problem.Name(), problem.OrderID, problem.Detail
	return reply
}
