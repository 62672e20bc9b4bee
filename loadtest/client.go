package loadtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// askLimit is the longest wait for a reply that is not a deduction's: those do not wait for locks.
const askLimit = 15 * time.Second

// pageSize is how many orders are asked for at a time.
const pageSize = 500

// A Client speaks the HTTP contract of the service. It is safe for concurrent use. Close it to give its connections back.
//
// It never follows a redirect, and never goes through a proxy of the environment: both would be measured with the service.
// It speaks HTTP/1.1 alone: with HTTP/2 all workers would share one connection, and so one instance behind a balancer.
type Client struct {
	base  string
	token string
	http  *http.Client
	limit time.Duration // askLimit, or less in tests
}

// NewClient makes a client of the service at address, such as http://localhost:8080, for so many requests at a time. token is the admin
// token, needed to set stock; it may be empty where the service asks for none. The error is a PlanError.
func NewClient(address, token string, concurrency int) (*Client, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, &PlanError{"url", err.Error()}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &PlanError{"url", fmt.Sprintf("%s must begin with http:// or https://", address)}
	case u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, &PlanError{"url", fmt.Sprintf("%s must be a host, with a port and a path prefix at most", address)}
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	// A worker that finds no idle connection opens one, and the pool closes those above its limit: with a limit below the
	// number of workers a run would measure the opening of connections.
	idle := concurrency + 8
	transport := &http.Transport{
		Protocols:           protocols,
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConns:        idle,
		MaxIdleConnsPerHost: idle,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
		DisableCompression:  true,
	}
	return &Client{
		base: strings.TrimSuffix(u.String(), "/"), token: token, limit: askLimit,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// URL is the address of the service.
func (c *Client) URL() string { return c.base }

// Close closes the idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Strategies lists the catalogue. Errors of it and of the next three are TargetErrors.
func (c *Client) Strategies(ctx context.Context) ([]Strategy, error) {
	var out struct {
		Strategies []Strategy `json:"strategies"`
	}
	err := c.call(ctx, http.MethodGet, "/v1/strategies", nil, &out)
	if err == nil && len(out.Strategies) == 0 {
		err = c.alien(http.MethodGet, "/v1/strategies", "no strategies")
	}
	return out.Strategies, err
}

// SetStock puts quantity units of sku into store ("": the service's default) and starts a new epoch.
func (c *Client) SetStock(ctx context.Context, store, sku string, quantity int64) (Stock, error) {
	return c.stock(ctx, http.MethodPut, store, sku, map[string]int64{"quantity": quantity})
}

// Stock is what is in store now.
func (c *Client) Stock(ctx context.Context, store, sku string) (Stock, error) {
	return c.stock(ctx, http.MethodGet, store, sku, nil)
}

func (c *Client) stock(ctx context.Context, method, store, sku string, in any) (Stock, error) {
	path := stockPath(sku, "", url.Values{}, store)
	var out Stock
	err := c.call(ctx, method, path, in, &out)
	if err == nil && out.SKU != sku {
		err = c.alien(method, path, fmt.Sprintf("the SKU %q", out.SKU))
	}
	return out, err
}

// Orders are all orders of the current epoch, in the order in which they were written. It reads page after page: what is
// written meanwhile may be in it or not.
func (c *Client) Orders(ctx context.Context, store, sku string) ([]Order, error) {
	orders := []Order{}
	seen := map[string]bool{"": true}
	for cursor := ""; ; {
		query := url.Values{"limit": {strconv.Itoa(pageSize)}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		path := stockPath(sku, "/orders", query, store)
		var page struct {
			Orders []Order `json:"orders"`
			Next   string  `json:"next"`
		}
		if err := c.call(ctx, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		orders = append(orders, page.Orders...)
		switch {
		case page.Next == "":
			return orders, nil
		case seen[page.Next]:
			return nil, c.alien(http.MethodGet, path, "a cursor that it gave before")
		}
		cursor = page.Next
		seen[cursor] = true
	}
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

// call sends in as JSON, if there is any, and decodes the reply into out.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("no reply within %v", c.limit))
	defer cancel()
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return c.fail("cannot be asked: %s %s: %w", method, path, err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
	}
	ans, err := c.exchange(req)
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return c.fail("did not answer %s %s in time: %w", method, path, context.Cause(ctx))
		case ans.status != 0:
			return c.fail("broke off its reply to %s %s after %d bytes: %w", method, path, len(ans.body), err)
		}
		return c.fail("cannot be reached: %s %s: %w (is it running there? `stock serve` starts one instance)", method, path, err)
	}
	if problem := ans.problem(); problem != nil {
		return c.fail("refuses %s %s: %w", method, path, problem)
	}
	switch {
	case ans.status >= 300 && ans.status < 400:
		return c.fail("redirects %s %s to %s, which is not followed: give that address instead", method, path, ans.header.Get("Location"))
	case ans.status != http.StatusOK || !ans.json():
		return c.alien(method, path, fmt.Sprintf("%s with status %d", ans.kind(), ans.status))
	}
	if err := json.Unmarshal(ans.body, out); err != nil {
		return c.alien(method, path, "JSON of another form: "+err.Error())
	}
	return nil
}

func (c *Client) fail(format string, args ...any) error {
	return &TargetError{c.base, fmt.Errorf(format, args...)}
}

func (c *Client) alien(method, path, returned string) error {
	return c.fail("answers but is not a stock service: %s %s returned %s", method, path, returned)
}
