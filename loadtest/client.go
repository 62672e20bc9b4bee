package loadtest

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/internal/words"
)

const (
	askLimit = 15 * time.Second // for all requests but deductions, which may wait for locks
	pageSize = 500              // orders per page
	maxBody  = 4 << 20          // the longest reply that is read; a page of orders has some hundred kilobytes
)

// A Client speaks the HTTP contract of the service. It is safe for concurrent use. Close it to release its connections.
//
// It never follows a redirect and never uses a proxy from the environment: either would be measured as a part of the
// service. It speaks HTTP/1.1 only: with HTTP/2 all workers would share one connection, and behind a load balancer one
// instance.
type Client struct {
	base  string
	token string
	http  *http.Client
	purse *Wallet        // the customers' tokens; nil: they have none
	limit time.Duration  // askLimit, or less in tests
	most  int            // MaxOrders, or fewer in tests
	lang  string         // of refusals that end a run; empty: the service's default
	seen  func(Exchange) // nil: nobody sees

	names, errors textPool // of the replies to deductions
}

// Speak sets the language, such as zh, of the refusals that end a run. Texts of single sales, which histories keep,
// stay in English. It must be called before the client is used.
func (c *Client) Speak(lang string) { c.lang = lang }

// Carry makes the client send each customer's token with his requests. It must be called before the client is used.
func (c *Client) Carry(w *Wallet) { c.purse = w }

// Ready returns when the customer has a token, or needs none.
func (c *Client) Ready(ctx context.Context, customer string) error {
	if c.purse == nil {
		return nil
	}
	_, err := c.purse.Token(ctx, customer)
	return err
}

// Identify adds the customer's token to a request, if customers have one.
func (c *Client) Identify(req *http.Request, customer string) error {
	if c.purse == nil {
		return nil
	}
	token, err := c.purse.Token(req.Context(), customer)
	if err == nil {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return err
}

// NewClient returns a client of the service at address, such as http://localhost:8080, for that many concurrent
// requests. With a concurrency of 0 each request has a connection of its own: net/http never sends such a request a
// second time, even if the server is killed. token is the admin token, which setting stock and lab options need. It may
// be empty if the service requires none. The error is a PlanError.
func NewClient(address, token string, concurrency int) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, &PlanError{"url", words.Of(err)}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, wrong("url", "scheme", "url", address)
	case u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, wrong("url", "host", "url", address)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// A worker that finds no idle connection opens one, and the pool closes those above its limit. With a limit below
	// the number of workers, a run would measure the opening of connections.
	idle := concurrency + 8
	transport := &http.Transport{
		Protocols:           protocols,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		DisableKeepAlives:   concurrency == 0,
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true,

		MaxResponseHeaderBytes: maxHeader,
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: token, limit: askLimit, most: MaxOrders,
		names: textPool{most: maxNames}, errors: textPool{most: maxErrors},
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Dial makes the client open its connections by dial, such as in memory. It must be called before the client is used.
func (c *Client) Dial(dial func(ctx context.Context, network, addr string) (net.Conn, error)) {
	c.http.Transport.(*http.Transport).DialContext = dial
}

// URL returns the address of the service.
func (c *Client) URL() string { return c.base }

// Token returns the admin token.
func (c *Client) Token() string { return c.token }

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Warm opens n connections. It keeps all of them busy until all replies have come, so that none is used twice. It
// ignores failures, which the run itself will report.
func (c *Client) Warm(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var workers, arrived sync.WaitGroup
	arrived.Add(n)
	for range n {
		workers.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/livez", nil)
			if err != nil {
				arrived.Done()
				return
			}
			res, err := c.http.Do(req)
			arrived.Done()
			if err != nil {
				return
			}
			arrived.Wait()
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
			res.Body.Close()
		})
	}
	workers.Wait()
}

// A Request is one deduction to ask for.
type Request struct {
	Endpoint  string // path of the strategy, such as /deduct_stock_zk
	Store     string // empty: the service's default
	SKU       string
	Quantity  int64
	Wait      *time.Duration // for the lock; nil: the strategy's default; 0: try once
	RequestID string
	Timeout   time.Duration // for each reply; 0: none

	// IdempotencyKey is the value of the header; empty: none. With a key, net/http may send the request again by itself
	// when a reused connection breaks. A client with concurrency 0 does not.
	IdempotencyKey string
	Lab            LabOptions
}

// LabOptions select what an instance in lab mode does on demand. The zero value selects nothing. They need the admin
// token.
type LabOptions struct {
	Pause      []string      // points at which the sale stops until it is released
	Hold       time.Duration // how long the critical section lasts
	Unfenced   bool          // the store does not check the fence
	IgnoreLoss bool          // continue after the lease is lost
	Nested     string        // "holder" or "stranger": who acquires the lock again inside; empty: nobody
}

// Limit returns a context that ends when the time for a reply is over, if that is limited.
func (r *Request) Limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if r.Timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
}

// Query returns the parameters of r.
func (r *Request) Query() url.Values {
	query := url.Values{"sku": {r.SKU}, "quantity": {strconv.FormatInt(r.Quantity, 10)}}
	set := func(name, value string, wanted bool) {
		if wanted {
			query.Set(name, value)
		}
	}
	set("store", r.Store, r.Store != "")
	if r.Wait != nil {
		query.Set("wait", r.Wait.String())
	}
	set("pause", strings.Join(r.Lab.Pause, ","), len(r.Lab.Pause) > 0)
	set("hold", r.Lab.Hold.String(), r.Lab.Hold > 0)
	set("fencing", "off", r.Lab.Unfenced)
	set("heed_loss", "off", r.Lab.IgnoreLoss)
	set("nested", r.Lab.Nested, r.Lab.Nested != "")
	return query
}

func (o *LabOptions) any() bool {
	return len(o.Pause) > 0 || o.Hold > 0 || o.Unfenced || o.IgnoreLoss || o.Nested != ""
}

// Deduct requests one deduction, once, until ctx ends. It returns no error: every way to end is an Outcome.
func (c *Client) Deduct(ctx context.Context, r Request) Reply {
	ctx, cancel := r.Limit(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+r.Endpoint+"?"+r.Query().Encode(), http.NoBody)
	if err != nil {
		return Reply{Outcome: Failed, Error: err.Error()}
	}
	req.Header.Set("X-Request-Id", r.RequestID)
	if r.IdempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.IdempotencyKey)
	}
	if r.Lab.any() {
		c.authorize(req)
	}
	return c.Attempt(req, func(ans *Answer) Reply { return classify(r, ans) })
}

// Attempt sends a deduction once, and calls classify to interpret the reply. Without a complete reply the outcome is
// Failed if the request never had a connection, and Unknown otherwise. The texts of the result are within the bounds.
func (c *Client) Attempt(req *http.Request, classify func(*Answer) Reply) Reply {
	return c.Keep(c.attempt(req, classify))
}

func (c *Client) attempt(req *http.Request, classify func(*Answer) Reply) Reply {
	ctx := req.Context()
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }}
	ans, err := c.exchange(req.WithContext(httptrace.WithClientTrace(ctx, trace)), maxReply)
	if err == nil {
		return classify(&ans)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if !sent.Load() {
		// There was no connection yet, so the service cannot have seen the request.
		return Reply{Outcome: Failed, Error: "not sent: " + err.Error()}
	}
	// The request may have arrived and been served, whatever the error says.
	return Reply{
		Outcome: Unknown, Status: ans.Status, Instance: ans.Header.Get("X-Instance"),
		Error: "no whole reply: " + err.Error(),
	}
}

// classify interprets ans as the reply to r.
func classify(r Request, ans *Answer) Reply {
	reply := Reply{Status: ans.Status, Instance: ans.Header.Get("X-Instance")}
	if problem := ans.Problem(); problem != nil {
		reply.Outcome, reply.Problem = problem.Outcome(), problem.Name()
		reply.OrderID, reply.Error = problem.OrderID, problem.Detail
		return reply // the "instance" of a problem is a path (RFC 9457)
	}
	if ans.Status == http.StatusOK {
		if err := reply.accept(r, ans); err != nil {
			// The service accepted with an invalid receipt. The orders in the store will decide.
			return Reply{Outcome: Unknown, Status: ans.Status, Instance: reply.Instance, Error: err.Error()}
		}
		reply.Replayed = ans.Header.Get("Idempotent-Replayed") == "true"
		return reply
	}
	if reply.Location = ans.Redirect(); reply.Location != "" {
		reply.Outcome = Failed
		reply.Error = fmt.Sprintf("status %d redirects to %s, which is not followed", ans.Status, reply.Location)
		return reply
	}
	// This reply is from a proxy in front of the service, or due to a crash. The three statuses below leave the outcome
	// open.
	reply.Outcome = Failed
	switch ans.Status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		reply.Outcome = Unknown
	}
	reply.Error = fmt.Sprintf("status %d with %s, which is no reply of a stock service", ans.Status, ans.Kind())
	return reply
}

// accept fills in the receipt. It returns an error if ans holds none, or one for another request.
func (reply *Reply) accept(r Request, ans *Answer) error {
	// Pointers distinguish an absent version from version 0, because two absent ones would look like a collision.
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
		return fmt.Errorf("status 200 with %s, which is no reply of a stock service", ans.Kind())
	}
	if err := errors.Join(json.Unmarshal(ans.Body, &got), json.Unmarshal(ans.Body, receipt)); err != nil {
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

// Strategies returns the catalogue. The errors of this method and of all below are TargetErrors.
func (c *Client) Strategies(ctx context.Context) ([]Strategy, error) {
	var out struct {
		Strategies []Strategy `json:"strategies"`
	}
	err := c.Call(ctx, http.MethodGet, "/v1/strategies", nil, &out)
	if err == nil && len(out.Strategies) == 0 {
		err = c.alien(http.MethodGet, "/v1/strategies", "no strategies")
	}
	return out.Strategies, err
}

// SetStock puts quantity units of sku into store ("": the service's default) and starts a new epoch.
func (c *Client) SetStock(ctx context.Context, store, sku string, quantity int64) (Stock, error) {
	return c.stock(ctx, http.MethodPut, store, sku, map[string]int64{"quantity": quantity})
}

// Stock returns the current stock of sku in store.
func (c *Client) Stock(ctx context.Context, store, sku string) (Stock, error) {
	return c.stock(ctx, http.MethodGet, store, sku, nil)
}

func (c *Client) stock(ctx context.Context, method, store, sku string, in any) (Stock, error) {
	path := stockPath(sku, "", url.Values{}, store)
	var out Stock
	err := c.Call(ctx, method, path, in, &out)
	if err == nil && out.SKU != sku {
		err = c.alien(method, path, fmt.Sprintf("the SKU %q", out.SKU))
	}
	out.Store, out.Guard = Clip(out.Store), Clip(out.Guard)
	return out, err
}

// Orders returns all orders of the current epoch, in the order of writing. It reads page after page, so orders that are
// written meanwhile may be missing.
func (c *Client) Orders(ctx context.Context, store, sku string) ([]Order, error) {
	orders := []Order{}
	path := stockPath(sku, "/orders", url.Values{}, store)
	err := c.Pages(path, pageSize, func(path string) (next string, n int, err error) {
		var page struct {
			Orders []Order `json:"orders"`
			Next   string  `json:"next"`
		}
		if err := c.Call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return "", 0, err
		}
		for _, o := range page.Orders {
			if len(o.OrderID) > MaxID {
				long := fmt.Sprintf("an order whose id has %d bytes", len(o.OrderID))
				return "", 0, c.alien(http.MethodGet, path, long)
			}
			o.SKU, o.Strategy, o.Instance = Clip(o.SKU), c.names.keep(o.Strategy), c.names.keep(o.Instance)
			o.RequestID = Clip(o.RequestID)
			orders = append(orders, o)
		}
		return page.Next, len(orders), nil
	})
	if err != nil {
		return nil, err
	}
	return orders, nil
}

// Pages calls read with the path of each page of a list of orders, at most size a page, until there is no next one.
// read returns the cursor of the next page, and how many orders it has read so far. A list that is too long, or goes
// round in a circle, is a TargetError.
func (c *Client) Pages(path string, size int, read func(path string) (next string, n int, err error)) error {
	list, parameters, _ := strings.Cut(path, "?")
	query, _ := url.ParseQuery(parameters)
	query.Set("limit", strconv.Itoa(size))
	seen := map[string]bool{"": true}
	for {
		page := list + "?" + query.Encode()
		next, n, err := read(page)
		switch {
		case err != nil:
			return err
		case n > c.most:
			return c.alien(http.MethodGet, page, fmt.Sprintf("more than %d orders, which are not read", c.most))
		case next == "":
			return nil
		case len(next) > MaxCursor:
			return c.alien(http.MethodGet, page, fmt.Sprintf("a cursor of %d bytes", len(next)))
		case seen[next]:
			return c.alien(http.MethodGet, page, "a cursor that it gave before")
		}
		seen[next] = true
		query.Set("cursor", next)
	}
}

// Settle makes the service decide finally whether an order exists.
func (c *Client) Settle(ctx context.Context, store, sku, orderID string) error {
	path := stockPath(sku, "/orders/"+url.PathEscape(orderID)+"/settle", url.Values{}, store)
	var out struct {
		OrderID string `json:"order_id"`
		State   string `json:"state"`
		Final   bool   `json:"final"`
	}
	err := c.Call(ctx, http.MethodPost, path, nil, &out)
	if err == nil && (out.OrderID != orderID || !out.Final) {
		err = c.alien(http.MethodPost, path, fmt.Sprintf("%s for %q", out.State, out.OrderID))
	}
	return err
}

func stockPath(sku, rest string, query url.Values, store string) string {
	if store != "" {
		query.Set("store", store)
	}
	path := "/v1/stock/" + url.PathEscape(sku) + rest
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// Call sends any request but a deduction, with the admin token, and with in as JSON unless in is nil. The reply must
// have status 200 and be JSON, which Call decodes into out unless out is nil. The error for a refusal unwraps to a
// Problem.
func (c *Client) Call(ctx context.Context, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out, func(req *http.Request) error {
		c.authorize(req)
		return nil
	})
}

// CallAs is Call as a customer: with his token, if customers have one.
func (c *Client) CallAs(ctx context.Context, customer, method, path string, in, out any) error {
	return c.call(ctx, method, path, in, out, func(req *http.Request) error { return c.Identify(req, customer) })
}

func (c *Client) call(
	ctx context.Context, method, path string, in, out any, identify func(*http.Request) error,
) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err == nil && c.lang != "" {
		req.Header.Set("Accept-Language", c.lang)
	}
	if err != nil {
		return c.fail("not-asked", "method", method, "path", path, "why", err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := identify(req); err != nil {
		return err
	}
	ans, err := c.Ask(req, say("client.running"))
	if err != nil {
		return err
	}
	if problem := ans.Problem(); problem != nil {
		return c.fail("refuses", "method", method, "path", path, "why", problem)
	}
	switch {
	case ans.Status >= 300 && ans.Status < 400:
		return c.fail("redirects", "method", method, "path", path, "to", Clip(ans.Header.Get("Location")))
	case ans.Status != http.StatusOK || !ans.json():
		return c.alien(method, path, fmt.Sprintf("%s with status %d", ans.Kind(), ans.Status))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(ans.Body, out); err != nil {
		return c.alien(method, path, "JSON of another form: "+err.Error())
	}
	return nil
}

// A Backend is a server that an instance uses, as its /readyz reports it.
type Backend struct {
	Up     bool
	Reason string // why it is not up
	Server string // what it is, if that was found out
}

// Backends returns the backends of an instance, by name. If the instance is not ready, that is the error.
func (c *Client) Backends(ctx context.Context) (map[string]Backend, error) {
	var reply struct{ Backends map[string]Backend }
	err := c.Call(ctx, http.MethodGet, "/readyz", nil, &reply)
	return reply.Backends, err
}

func (c *Client) authorize(req *http.Request) {
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
}

// Ask sends a request and returns the complete reply, whatever its status. It gives up after 15 s. hint ends the error
// text if the target cannot be reached. Errors are TargetErrors.
func (c *Client) Ask(req *http.Request, hint words.Text) (Answer, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), c.limit, phrases.Error("client.no-reply", "limit", c.limit))
	defer cancel()
	// The error names the path as the caller knows it: without the path of the base address.
	what := req.Method + " " + strings.TrimPrefix(req.URL.String(), c.base)
	ans, err := c.exchange(req.WithContext(ctx), maxBody)
	switch {
	case err == nil:
		return ans, nil
	case ctx.Err() != nil:
		return ans, c.fail("late", "request", what, "why", context.Cause(ctx))
	case ans.Status != 0:
		return ans, c.fail("broken-off", "request", what, "n", len(ans.Body), "why", err)
	}
	return ans, c.fail("unreachable", "request", what, "why", err, "hint", hint)
}

// Errorf returns a TargetError about the service.
func (c *Client) Errorf(format string, args ...any) error {
	return &TargetError{c.base, fmt.Errorf(format, args...)}
}

// fail returns a TargetError with a text of the catalogue, under "client".
func (c *Client) fail(key string, pairs ...any) error {
	return &TargetError{c.base, phrases.Error("client."+key, pairs...)}
}

func (c *Client) alien(method, path, returned string) error {
	return c.fail("alien", "method", method, "path", path, "returned", Clip(returned))
}

// Sleep waits for d. If ctx ends first, it returns the cause at once.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
