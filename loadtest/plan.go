// Package loadtest is the load generator and the judge: it sends deductions over HTTP, keeps every reply, and says from the replies and
// the orders in the store whether stock was lost.
package loadtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Grace is how long requests under way may take to end once a run is interrupted. After it they are cut off, and their outcome is unknown.
const Grace = 2 * time.Second

// patience is how much longer than the wait for the lock a reply may take, if Plan.Timeout is 0.
const patience = 30 * time.Second

// maxWorkers bounds connections, and with them open files and ports.
const maxWorkers = 10_000

// A Plan says what a run does. It is a closed loop: each worker sends its next request when it has the reply to the last one. That
// hides queueing (a slow service is sent less), so the latencies are service times, not what a customer at a fixed rate would see.
type Plan struct {
	Strategy    string         `json:"strategy"`
	Store       string         `json:"store"`       // empty: the strategy's default
	SKU         string         `json:"sku"`         // empty: "load-" and the strategy, so that runs do not collide
	Quantity    int64          `json:"quantity"`    // units per request; 0: 1
	Stock       int64          `json:"stock"`       // units put in stock before the run
	Requests    int            `json:"requests"`    // in all
	Concurrency int            `json:"concurrency"` // workers; no more than Requests are started; 0: 1
	Wait        *time.Duration `json:"-"`           // for the lock; nil: the strategy's default; 0: try once
	Timeout     time.Duration  `json:"-"`           // of one request; 0: 30 s more than Wait
	Cold        bool           `json:"cold"`        // do not open the connections before the start

	History io.Writer `json:"-"` // if not nil, the history is streamed to it
}

// planText is how durations look in JSON: "5s".
type planText struct {
	*bare
	Wait    string `json:"wait,omitempty"`
	Timeout string `json:"timeout"`
}

type bare Plan // without the methods

// MarshalJSON writes durations as "5s".
func (p Plan) MarshalJSON() ([]byte, error) {
	text := planText{bare: (*bare)(&p), Timeout: p.Timeout.String()}
	if p.Wait != nil {
		text.Wait = p.Wait.String()
	}
	return json.Marshal(text)
}

// UnmarshalJSON reads what MarshalJSON writes, and refuses unknown keys.
func (p *Plan) UnmarshalJSON(data []byte) error {
	*p = Plan{}
	text := planText{bare: (*bare)(p)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err := dec.Decode(&text)
	if err == nil && text.Wait != "" {
		p.Wait = new(time.Duration)
		*p.Wait, err = time.ParseDuration(text.Wait)
	}
	if err == nil {
		p.Timeout, err = time.ParseDuration(text.Timeout)
	}
	return err
}

// filled is p with its defaults, or a PlanError.
func (p Plan) filled() (Plan, error) {
	if p.Quantity == 0 {
		p.Quantity = 1
	}
	if p.Concurrency == 0 {
		p.Concurrency = 1
	}
	if p.SKU == "" {
		p.SKU = "load-" + p.Strategy
	}
	var wait time.Duration
	if p.Wait != nil {
		wait = *p.Wait
	}
	if p.Timeout == 0 {
		p.Timeout = wait + patience
	}
	bad := func(field, format string, args ...any) (Plan, error) {
		return p, &PlanError{field, fmt.Sprintf(format, args...)}
	}
	switch {
	case p.Strategy == "":
		return bad("strategy", "is missing")
	case p.Quantity < 1:
		return bad("quantity", "must be 1 or more, is %d", p.Quantity)
	case p.Stock < 0:
		return bad("stock", "must not be negative, is %d", p.Stock)
	case p.Requests < 1:
		return bad("requests", "must be 1 or more, is %d", p.Requests)
	case p.Concurrency < 1 || p.Concurrency > maxWorkers:
		return bad("concurrency", "must be from 1 to %d, is %d", maxWorkers, p.Concurrency)
	case wait < 0:
		return bad("wait", "must not be negative, is %v (0s tries once)", wait)
	case p.Timeout < 0:
		return bad("timeout", "must not be negative, is %v", p.Timeout)
	case p.Timeout <= wait:
		return bad("timeout", "%v must be longer than the wait for the lock (%v), or waiting requests are cut off and their outcome is unknown",
			p.Timeout, wait)
	}
	p.Concurrency = min(p.Concurrency, p.Requests)
	return p, nil
}
