// Package loadtest is the load generator and the judge: it sends deductions over HTTP, keeps every reply, and says from the replies and
// the orders in the store whether stock was lost.
package loadtest

import (
	"io"
	"time"
)

// Grace is how long requests under way may take to end once a run is interrupted. After it they are cut off, and their outcome is unknown.
const Grace = 2 * time.Second

// patience is how much longer than the wait for the lock a reply may take, if Plan.Timeout is 0.
const patience = 30 * time.Second

// maxWorkers bounds connections, and with them open files and ports.
const maxWorkers = 10_000

// inFlight is Plan.MaxInFlight if it is 0.
const inFlight = 1000

// A Plan says what a run does. Its load follows one of two models.
//
// Without a Rate it is a closed loop: each of Concurrency workers sends its next request when it has the reply to the last one. That
// hides queueing (a slow service is sent less), so the latencies are service times, not what a customer at a fixed rate would see.
//
// With a Rate it is an open loop: requests are sent when they are due, whether or not the service keeps up, and their latencies count
// from then.
type Plan struct {
	Strategy string `json:"strategy"`
	Store    string `json:"store"`          // empty: the strategy's default
	SKU      string `json:"sku"`            // empty: "load-" and the strategy, so that runs do not collide
	SKUs     int    `json:"skus,omitempty"` // how many; 0: 1. Of several each is named SKU with "-1", "-2" ... after it
	Skew     Skew   `json:"skew,omitempty"` // among the SKUs
	Stock    int64  `json:"stock"`          // units put in stock of each SKU before the run

	Quantity   int64   `json:"quantity,omitempty"`   // units per request; 0: 1
	Quantities []int64 `json:"quantities,omitempty"` // instead of Quantity: each request asks for one of these, all as likely

	Requests    int           `json:"requests,omitempty"`      // in all; or Duration
	Duration    time.Duration `json:"-"`                       // for how long requests are sent; or Requests
	Concurrency int           `json:"concurrency,omitempty"`   // closed loop: workers; no more than Requests are started; 0: 1
	RampUp      time.Duration `json:"-"`                       // closed loop: workers start evenly within it; 0: all at the same moment
	Rate        Rate          `json:"rate,omitzero"`           // open loop; zero: closed loop
	Arrivals    Arrivals      `json:"arrivals,omitempty"`      // open loop; empty: Poisson
	MaxInFlight int           `json:"max_in_flight,omitempty"` // open loop: what is due while so many are under way is dropped; 0: 1000
	WarmUp      time.Duration `json:"-"`                       // the same load before the run, on SKUs of its own; 0: none
	Seed        uint64        `json:"seed,omitempty"`          // of SKUs, quantities and arrivals; 0: a new one

	Wait    *time.Duration `json:"-"`              // for the lock; nil: the strategy's default; 0: try once
	Timeout time.Duration  `json:"-"`              // of one request; 0: 30 s more than Wait
	Cold    bool           `json:"cold,omitempty"` // do not open the connections before the start

	Shared  bool   `json:"shared,omitempty"`  // others may sell from the same SKUs during the run; see Evidence
	Mapping string `json:"mapping,omitempty"` // file of the Mapping of a Mapped target, for the record

	History io.Writer `json:"-"` // if not nil, the history is streamed to it
}

// Open reports whether p is an open loop.
func (p *Plan) Open() bool { return p.Rate != Rate{} }

// Names are the SKUs that p sells.
func (p *Plan) Names() []string { return skuNames(p.SKU, p.SKUs) }
