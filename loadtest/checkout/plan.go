// Package checkout puts the load of customers on an order service, and judges the service by its own books.
//
// Customers fill carts, reserve, confirm, cancel, let reservations expire, come back too late, and repeat a request
// whose reply was lost. Afterwards the ledger of every SKU, the orders, the reservations and the events must agree with
// each other and with the replies. All evidence is read over HTTP, and events where a consumer reads them; nothing
// comes from the service's code.
package checkout

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

func say(key string, pairs ...any) words.Text { return phrases.Say(key, pairs...) }

// A Way is what a customer does in one visit.
type Way string

// The ways. Each cart has an idempotency key, and so have most of the later requests.
const (
	Buy       Way = "buy"         // an order
	Regret    Way = "regret"      // an order, and it is canceled
	Pay       Way = "pay"         // a reservation, and it is confirmed
	Leave     Way = "leave"       // a reservation, and it is canceled
	Think     Way = "think"       // a reservation, extended, confirmed
	Forget    Way = "forget"      // a reservation, which expires
	PayLate   Way = "pay-late"    // a reservation, and it is confirmed after it has expired
	LastTick  Way = "last-tick"   // a reservation, and it is confirmed at the moment at which it expires
	TwoTabs   Way = "two-tabs"    // a reservation, confirmed in one tab and canceled in the other at the same moment
	MisuseKey Way = "misuse-key"  // an order, and another cart with its key
	Deliver   Way = "delivery"    // no customer: the operator adds units
	Return    Way = "return-late" // a reservation, confirmed, and the order is canceled
)

// ways returns all ways, with their share of visits in percent.
func ways() []struct {
	way   Way
	share int
} {
	return []struct {
		way   Way
		share int
	}{
		{Buy, 24},
		{Regret, 8},
		{Pay, 20},
		{Leave, 7},
		{Think, 5},
		{Forget, 8},
		{PayLate, 7},
		{LastTick, 6},
		{TwoTabs, 5},
		{MisuseKey, 3},
		{Deliver, 3},
		{Return, 4},
	}
}

// Ways returns all ways, in the order in which reports list them.
func Ways() (list []Way) {
	for _, w := range ways() {
		list = append(list, w.way)
	}
	return list
}

// A Plan describes a run. Workers make one visit after the other: a closed loop.
type Plan struct {
	SKU         string        `json:"sku"`          // "load-checkout" if empty; with "-1", "-2" ... after it
	SKUs        int           `json:"skus"`         // how many; 0: 20
	Skew        loadtest.Skew `json:"skew"`         // among them; empty: zipf:1.1
	Stock       int64         `json:"stock"`        // initial units of each; 0: 100
	Quantities  []int64       `json:"quantities"`   // units of a line, all equally likely; empty: 1 and 2
	Lines       int           `json:"lines"`        // largest number of lines of a cart, all equally likely; 0: 4
	PerCustomer int64         `json:"per_customer"` // limit of each SKU; 0: 4; below 0: none

	Visits      int           `json:"visits,omitempty"` // in all; or Duration
	Duration    time.Duration `json:"-"`                // for how long visits begin; or Visits
	Concurrency int           `json:"concurrency"`      // workers; 0: 30
	Lost        float64       `json:"lost"`             // share of requests whose reply is lost; 0: 0.1; below 0: none
	TTL         time.Duration `json:"-"`                // of a reservation that shall expire; 0: 1 s, the minimum
	Seed        uint64        `json:"seed"`             // of all random choices; 0: a new one
	Timeout     time.Duration `json:"-"`                // of a request; 0: 15 s
	Patience    time.Duration `json:"-"`                // time for retries of a request; 0: 20 s
	SettleLimit time.Duration `json:"-"`                // time for settling, and for each further event; 0: 30 s

	At  []loadtest.Command `json:"at,omitempty"` // commands while visits are made
	Log io.Writer          `json:"-"`            // if not nil, they and their output are written to it

	History io.Writer `json:"-"` // if not nil, the history is streamed to it
}

// Limits of a Plan.
const (
	maxSKUs    = 200
	maxLines   = 20
	maxWorkers = 1000
	visitsEach = 6 // visits of one customer at about the same time, like tabs of one browser
)

func wrong(field, key string, pairs ...any) error {
	return &loadtest.PlanError{Field: field, Reason: say("plan."+key, pairs...)}
}

// Filled returns p with its defaults, or a loadtest.PlanError.
func (p Plan) Filled() (Plan, error) {
	p.SKU = cmp.Or(p.SKU, "load-checkout")
	p.SKUs = cmp.Or(p.SKUs, 20)
	p.Skew = cmp.Or(p.Skew, "zipf:1.1")
	p.Stock = cmp.Or(p.Stock, 100)
	if len(p.Quantities) == 0 {
		p.Quantities = []int64{1, 2}
	}
	p.Lines = cmp.Or(p.Lines, 4)
	p.PerCustomer = cmp.Or(p.PerCustomer, 4)
	p.Concurrency = cmp.Or(p.Concurrency, 30)
	p.Lost = cmp.Or(p.Lost, 0.1)
	p.TTL = cmp.Or(p.TTL, time.Second)
	p.Seed = cmp.Or(p.Seed, loadtest.NewSeed())
	p.Timeout = cmp.Or(p.Timeout, 15*time.Second)
	p.Patience = cmp.Or(p.Patience, 20*time.Second)
	p.SettleLimit = cmp.Or(p.SettleLimit, 30*time.Second)
	between := func(field string, n, least, most int64) error {
		if n < least || n > most {
			return wrong(field, "from-to", "least", least, "most", most, "given", n)
		}
		return nil
	}
	if (p.Visits > 0) == (p.Duration > 0) {
		return p, wrong("visits", "ends")
	}
	if p.Lost > 0.9 {
		return p, wrong("lost-replies", "lost", "given", p.Lost)
	}
	for _, q := range p.Quantities {
		if err := between("quantity", q, 1, 1000); err != nil {
			return p, err
		}
	}
	if err := cmp.Or(
		between("skus", int64(p.SKUs), 1, maxSKUs), between("stock", p.Stock, 1, 1_000_000_000),
		between("lines", int64(p.Lines), 1, maxLines), between("concurrency", int64(p.Concurrency), 1, maxWorkers),
		between("visits", int64(p.Visits), 0, 10_000_000), loadtest.CheckCommands(p.At, p.Duration),
	); err != nil {
		return p, err
	}
	if _, err := p.Skew.Weights(p.SKUs); err != nil {
		return p, &loadtest.PlanError{Field: "skew", Reason: words.Of(err)}
	}
	return p, nil
}

// Names returns the SKUs.
func (p *Plan) Names() []string {
	list := make([]string, p.SKUs)
	for i := range list {
		list[i] = fmt.Sprintf("%s-%d", p.SKU, i+1)
	}
	return list
}

// limit returns the most units of a SKU that a customer may have; 0: no limit.
func (p *Plan) limit() int64 { return max(0, p.PerCustomer) }

// Command returns the command that repeats p against target, without the token.
func (p *Plan) Command(target string) string {
	c := loadtest.CommandLine{"stock", "checkout", "--url", target}
	c.Add("sku", p.SKU)
	c.Add("skus", p.SKUs)
	c.Add("skew", p.Skew)
	c.Add("stock", p.Stock)
	c.Add("quantity", loadtest.JoinQuantities(p.Quantities))
	c.Add("lines", p.Lines)
	c.Add("per-customer", p.limit())
	c.Add("lost-replies", max(0, p.Lost))
	c.Add("concurrency", p.Concurrency)
	c.Add("seed", p.Seed)
	c.Add("timeout", p.Timeout)
	for i := range p.At {
		c.Add("at", &p.At[i])
	}
	if p.Duration > 0 {
		c.Add("duration", p.Duration)
	} else {
		c.Add("visits", p.Visits)
	}
	return c.String()
}
