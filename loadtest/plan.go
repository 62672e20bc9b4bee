// Package loadtest is the load generator and the judge. It sends deductions over HTTP, records every reply, and decides
// from the replies and the orders in the store whether an update was lost.
package loadtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// Grace is how long requests in flight may take to end once a run is interrupted. Then they are cut off, and their
// outcome is unknown.
const Grace = 2 * time.Second

// replyTime is how much longer than the wait for the lock a reply may take, if Plan.Timeout is 0.
const replyTime = 30 * time.Second

// maxWorkers limits connections, and with them open files and ports.
const maxWorkers = 10_000

// inFlight is the default of Plan.MaxInFlight.
const inFlight = 1000

// A Plan describes a run. Its load follows one of two models.
//
// Without a Rate it is a closed loop: each of Concurrency workers sends its next request after the reply to the last
// one. That hides queueing, because a slow service receives fewer requests. So the latencies are service times, and not
// what customers arriving at a fixed rate would see.
//
// With a Rate it is an open loop: a request is sent when it is due, whether or not the service keeps up, and its
// latency counts from then.
type Plan struct {
	Strategy string `json:"strategy"`
	Store    string `json:"store"`          // empty: the strategy's default
	SKU      string `json:"sku"`            // empty: "load-" and the strategy, so that runs do not collide
	SKUs     int    `json:"skus,omitempty"` // number of SKUs; 0: 1. Several are named SKU with "-1", "-2" ... after it
	Skew     Skew   `json:"skew,omitempty"` // among the SKUs
	Stock    int64  `json:"stock"`          // units of each SKU before the run

	Quantity int64 `json:"quantity,omitempty"` // units per request; 0: 1
	// instead of Quantity: each request asks for one of these, all equally likely
	Quantities []int64 `json:"quantities,omitempty"`

	Requests int           `json:"requests,omitempty"` // in all; or Duration
	Duration time.Duration `json:"-"`                  // for how long requests are sent; or Requests
	// closed loop: workers; no more than Requests are started; 0: 1
	Concurrency int      `json:"concurrency,omitempty"`
	Rate        Rate     `json:"rate,omitzero"`      // open loop; zero: closed loop
	Arrivals    Arrivals `json:"arrivals,omitempty"` // open loop; empty: Poisson
	// open loop: a request that is due while this number is in flight is dropped; 0: 1000
	MaxInFlight int `json:"max_in_flight,omitempty"`
	// duration of the same load before the run, on separate SKUs; 0: none
	WarmUp time.Duration `json:"-"`
	Seed   uint64        `json:"seed,omitempty"` // of SKUs, quantities and arrivals; 0: a new one

	Wait    *time.Duration `json:"-"` // for the lock; nil: the strategy's default; 0: try once
	Timeout time.Duration  `json:"-"` // of one request; 0: 30 s more than Wait
	// time until Run's second look at the final stock and orders; nil: Recheck; 0: no second look
	Recheck *time.Duration `json:"-"`
	// how late the target may report changes of stock and orders; 0: LateLimit
	Late time.Duration `json:"-"`

	Shared  bool     `json:"shared,omitempty"`  // others may sell from the same SKUs during the run; see Evidence
	Listed  []string `json:"listed,omitempty"`  // SKUs that a mapping lists, in place of SKU and SKUs
	Mapping string   `json:"mapping,omitempty"` // file of the Mapping of a Mapped target, for the record

	At  []Command `json:"at,omitempty"` // commands during the run, not the warm-up; see Result.Ran
	Log io.Writer `json:"-"`            // if not nil, they and their output are written to it

	History io.Writer `json:"-"` // if not nil, the history is streamed to it
}

// Open reports whether p is an open loop.
func (p *Plan) Open() bool { return p.Rate != Rate{} }

// Names returns the SKUs that p sells.
func (p *Plan) Names() []string {
	if len(p.Listed) > 0 {
		return p.Listed
	}
	return skuNames(p.SKU, p.SKUs)
}

// maxSeed keeps seeds short on a command line, and exact in JSON readers that have only floating-point numbers.
const maxSeed = 1_000_000_000

// filled returns p with its defaults, or a PlanError.
func (p Plan) filled() (Plan, error) {
	if len(p.Quantities) == 0 {
		p.Quantity = cmp.Or(p.Quantity, 1)
	}
	if len(p.Listed) > 0 {
		p.SKU, p.SKUs = p.Listed[0], len(p.Listed)
	}
	p.SKUs = cmp.Or(p.SKUs, 1)
	p.SKU = cmp.Or(p.SKU, "load-"+p.Strategy)
	p.Seed = cmp.Or(p.Seed, NewSeed())
	var wait time.Duration
	if p.Wait != nil {
		wait = *p.Wait
	}
	p.Timeout = cmp.Or(p.Timeout, wait+replyTime)
	if p.Recheck == nil {
		p.Recheck = new(Recheck)
	}
	var err error
	if p.Open() {
		p.MaxInFlight, p.Arrivals = cmp.Or(p.MaxInFlight, inFlight), cmp.Or(p.Arrivals, Poisson)
		err = p.checkOpen()
	} else {
		p.Concurrency = cmp.Or(p.Concurrency, 1)
		err = p.checkClosed()
	}
	if err = cmp.Or(p.check(wait), err); err != nil {
		return p, err
	}
	if p.Requests > 0 && !p.Open() {
		p.Concurrency = min(p.Concurrency, p.Requests)
	}
	return p, nil
}

// NewSeed returns a random seed.
func NewSeed() uint64 { return 1 + rand.Uint64N(maxSeed) }

func wrong(field, key string, pairs ...any) error {
	return &PlanError{field, phrases.Say("plan."+key, pairs...)}
}

// check refuses plans that are invalid in both models.
func (p *Plan) check(wait time.Duration) error {
	switch {
	case p.Strategy == "":
		return wrong("strategy", "missing")
	case len(p.Quantities) > 0 && p.Quantity != 0:
		return wrong("quantity", "both-quantities")
	case len(p.Quantities) == 0 && p.Quantity < 1:
		return wrong("quantity", "one-or-more", "given", p.Quantity)
	case p.SKUs < 1 || p.SKUs > maxSKUs:
		return wrong("skus", "from-to", "least", 1, "most", maxSKUs, "given", p.SKUs)
	case p.Stock < 0:
		return wrong("stock", "negative", "given", p.Stock)
	case p.Requests < 0 || p.Requests == 0 && p.Duration == 0:
		return wrong("requests", "requests", "given", p.Requests)
	case p.Duration < 0:
		return wrong("duration", "negative", "given", p.Duration)
	case p.Requests > 0 && p.Duration > 0:
		return wrong("duration", "both-ends", "requests", p.Requests, "duration", p.Duration)
	case p.WarmUp < 0:
		return wrong("warm-up", "negative", "given", p.WarmUp)
	case wait < 0:
		return wrong("wait", "wait", "given", wait)
	case p.Timeout < 0:
		return wrong("timeout", "negative", "given", p.Timeout)
	case *p.Recheck < 0 || *p.Recheck > maxRecheck:
		return wrong("recheck", "recheck", "most", maxRecheck, "given", *p.Recheck)
	case p.Timeout <= wait:
		return wrong("timeout", "timeout", "given", p.Timeout, "wait", wait)
	case p.SKUs == 1 && p.Skew != "" && p.Skew != Uniform:
		return wrong("skew", "skew-alone", "given", p.Skew)
	}
	for _, q := range p.Quantities {
		if q < 1 {
			return wrong("quantity", "one-or-more", "given", q)
		}
	}
	if _, err := p.Skew.Weights(p.SKUs); err != nil {
		return &PlanError{"skew", words.Of(err)}
	}
	return CheckCommands(p.At, p.Duration)
}

func (p *Plan) checkClosed() error {
	switch {
	case p.Concurrency < 1 || p.Concurrency > maxWorkers:
		return wrong("concurrency", "from-to", "least", 1, "most", maxWorkers, "given", p.Concurrency)
	case p.MaxInFlight != 0:
		return wrong("max-in-flight", "in-flight-closed")
	case p.Arrivals != "":
		return wrong("arrivals", "arrivals-closed")
	}
	return nil
}

func (p *Plan) checkOpen() error {
	switch {
	case p.Rate.From < 0 || p.Rate.To < 0 || p.Rate.From > maxRate || p.Rate.To > maxRate:
		return wrong("rate", "rate", "most", maxRate, "given", p.Rate)
	case p.Rate.From != p.Rate.To && p.Duration == 0:
		return wrong("rate", "ramp", "given", p.Rate)
	case p.Concurrency != 0:
		return wrong("concurrency", "concurrency-open")
	case p.MaxInFlight < 1 || p.MaxInFlight > maxWorkers:
		return wrong("max-in-flight", "from-to", "least", 1, "most", maxWorkers, "given", p.MaxInFlight)
	case p.Arrivals != Poisson && p.Arrivals != Even:
		return wrong("arrivals", "arrivals", "given", strconv.Quote(string(p.Arrivals)))
	}
	return nil
}

// Check returns a PlanError if p is impossible for any target.
func (p Plan) Check() error {
	p.Strategy = cmp.Or(p.Strategy, "any")
	_, err := p.filled()
	return err
}

// Connections returns the number of concurrent connections that p may need.
func (p *Plan) Connections() int {
	if p.Open() {
		return cmp.Or(p.MaxInFlight, inFlight)
	}
	return max(p.Concurrency, 1)
}

// planText is the JSON form of a Plan. Its durations are those of the plan itself.
type planText struct {
	*bare
	Duration *Span `json:"duration,omitzero"`
	WarmUp   *Span `json:"warm_up,omitzero"`
	Wait     *Span `json:"wait,omitempty"`
	Timeout  *Span `json:"timeout"`
	Recheck  *Span `json:"recheck,omitempty"`
}

type bare Plan // without the methods

func (p *Plan) text() *planText {
	return &planText{
		(*bare)(p), (*Span)(&p.Duration), (*Span)(&p.WarmUp), (*Span)(p.Wait), (*Span)(&p.Timeout), (*Span)(p.Recheck),
	}
}

// MarshalJSON writes durations as "5s".
func (p Plan) MarshalJSON() ([]byte, error) { return json.Marshal(p.text()) }

// UnmarshalJSON reads the form that MarshalJSON writes. An unknown key is an error, as in Strict.
func (p *Plan) UnmarshalJSON(data []byte) error {
	*p = Plan{}
	text := p.text()
	err := Strict(data, text)
	p.Wait, p.Recheck = (*time.Duration)(text.Wait), (*time.Duration)(text.Recheck)
	return err
}

// A Span is a time.Duration that is "5s" in JSON.
type Span time.Duration

// IsZero reports whether a key that may be left out is.
func (s Span) IsZero() bool { return s == 0 }

// MarshalText writes a span as "5s".
func (s Span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (s *Span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = Span(d)
	return err
}

// A CommandLine is a command that can be pasted into a shell.
type CommandLine []string

// Add adds a flag with its value.
func (c *CommandLine) Add(flag string, value any) { *c = append(*c, "--"+flag, fmt.Sprint(value)) }

// String quotes what a shell would not take literally.
func (c CommandLine) String() string {
	plain := regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+-]+$`)
	list := slices.Clone(c)
	for i, word := range list {
		if !plain.MatchString(word) {
			list[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(list, " ")
}

// commandLine returns the command that repeats p against target. It leaves out the token, which must not be in a file.
func commandLine(target string, p *Plan) string {
	c := CommandLine{"stock", "load", "--url", target}
	if p.Mapping != "" {
		c.Add("mapping", p.Mapping)
	} else {
		c.Add("strategy", p.Strategy)
	}
	if p.Store != "" {
		c.Add("store", p.Store)
	}
	if len(p.Listed) == 0 {
		c.Add("sku", p.SKU)
	}
	if p.SKUs > 1 && len(p.Listed) == 0 {
		c.Add("skus", p.SKUs)
	}
	if p.Skew != "" {
		c.Add("skew", p.Skew)
	}
	c.Add("stock", p.Stock)
	c.Add("quantity", p.quantityText())
	if p.Open() {
		c.Add("rate", p.Rate)
		c.Add("arrivals", p.Arrivals)
		c.Add("max-in-flight", p.MaxInFlight)
	} else {
		c.Add("concurrency", p.Concurrency)
	}
	if p.Duration > 0 {
		c.Add("duration", p.Duration)
	} else {
		c.Add("requests", p.Requests)
	}
	if p.WarmUp > 0 {
		c.Add("warm-up", p.WarmUp)
	}
	c.Add("seed", p.Seed)
	if p.Wait != nil {
		c.Add("wait", *p.Wait)
	}
	c.Add("timeout", p.Timeout)
	if p.Recheck != nil && *p.Recheck != Recheck {
		c.Add("recheck", *p.Recheck)
	}
	for i := range p.At {
		c.Add("at", &p.At[i])
	}
	if p.Shared {
		c = append(c, "--shared")
	}
	return c.String()
}

// quantityText returns the quantities in the form that ParseQuantities reads.
func (p *Plan) quantityText() string {
	if len(p.Quantities) == 0 {
		return strconv.FormatInt(p.Quantity, 10)
	}
	return JoinQuantities(p.Quantities)
}

// JoinQuantities returns quantities in the form that ParseQuantities reads.
func JoinQuantities(list []int64) string {
	return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(list), "[]")), ",")
}

// Load describes the load of p: "30 workers", or "1000 requests/s, poisson arrivals".
func (p *Plan) Load() words.Text {
	var load words.Text
	if p.Open() {
		load = say("load.open", "rate", p.Rate, "arrivals", phrases.Say("load.arrivals-"+string(p.Arrivals)))
	} else {
		load = say("load.closed", "n", p.Concurrency)
	}
	if p.Duration > 0 {
		load = say("load.for", "load", load, "duration", p.Duration)
	}
	if p.WarmUp > 0 {
		load = say("load.warm-up", "load", load, "duration", p.WarmUp)
	}
	return load
}

// Goods describes the SKUs of p: "SKU pen", or "20 SKUs pen-1 to pen-20, zipf:1.1".
func (p *Plan) Goods() words.Text {
	if p.SKUs <= 1 {
		return words.Same("SKU " + p.SKU)
	}
	list := p.Names()
	text := say("load.skus", "n", p.SKUs, "first", list[0], "last", list[len(list)-1])
	if p.Skew != "" {
		text = words.Join([]words.Text{text, words.Same(string(p.Skew))}, say("comma"))
	}
	return text
}

// Units describes the units of a request: "1 unit", or "1,2,5 units".
func (p *Plan) Units() words.Text {
	return say("load.units", "n", p.quantityText())
}
