package loadtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// An Exchange is one request and its reply, as an observer sees it. Err is nil if the reply is whole.
type Exchange struct {
	Request *http.Request
	Body    []byte // of the request
	Answer
	Err  error
	Took time.Duration
}

// Observe makes the client call seen after each request. It must be called before the client is used.
func (c *Client) Observe(seen func(Exchange)) { c.seen = seen }

// An Answer is an HTTP reply, or the part of it that arrived.
type Answer struct {
	Status int // 0: there was no reply
	Header http.Header
	Body   []byte
}

// exchange sends req and reads the reply to its end, so that the connection can be reused. A body of more than most
// bytes is an error. With an error, the Answer holds what came before it.
func (c *Client) exchange(req *http.Request, most int64) (Answer, error) {
	if c.seen == nil {
		return c.send(req, most)
	}
	seen, began := Exchange{Request: req}, time.Now()
	if req.GetBody != nil {
		if body, err := req.GetBody(); err == nil {
			seen.Body, _ = io.ReadAll(body) // it is in memory
		}
	}
	seen.Answer, seen.Err = c.send(req, most)
	seen.Took = time.Since(began)
	c.seen(seen)
	return seen.Answer, seen.Err
}

func (c *Client) send(req *http.Request, most int64) (Answer, error) {
	res, err := c.http.Do(req)
	if err != nil {
		var outer *url.Error // repeats method and URL
		if errors.As(err, &outer) {
			err = outer.Err
		}
		return Answer{}, withoutPort(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(body)) > most {
		err = fmt.Errorf("it is longer than %d bytes", most)
	}
	return Answer{res.StatusCode, res.Header, body}, withoutPort(err)
}

// withoutPort removes the local port from err, so that the same error on many connections has the same text.
func withoutPort(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Source != nil {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	return err
}

// Kind returns the media type, or a text that there is none.
func (a *Answer) Kind() string {
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || kind == "" {
		return "a reply without a content type"
	}
	return Clip(kind)
}

// Redirect returns the target of a redirect, without query and fragment, which may differ between requests. It returns
// "" if a is no redirect.
func (a *Answer) Redirect() string {
	if a.Status < 300 || a.Status > 399 {
		return ""
	}
	to, _, _ := strings.Cut(a.Header.Get("Location"), "#")
	to, _, _ = strings.Cut(to, "?")
	return Clip(to)
}

func (a *Answer) json() bool { return a.Kind() == "application/json" }

// Problem returns the Problem in a, with its texts cut off at the bound, or nil if a is no refusal.
func (a *Answer) Problem() *Problem {
	if a.Kind() != "application/problem+json" {
		return nil
	}
	p := new(Problem)
	if json.Unmarshal(a.Body, p) != nil || p.Type == "" {
		return nil
	}
	if p.Status == 0 {
		p.Status = a.Status
	}
	for _, text := range []*string{&p.Type, &p.Title, &p.Detail, &p.Field, &p.Of} {
		*text = Clip(*text)
	}
	return p
}
