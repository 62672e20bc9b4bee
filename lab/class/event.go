// Package class is the live wall for a class. It starts real servers and instances. The teacher sends requests, pauses
// each at any point, and freezes and kills servers; a page for the projector shows the steps that the instances report.
// Students buy and vote on their phones.
//
// It is an HTTP client. It shows the steps that instances in lab mode report, their replies, and the stock in the
// store. Nothing is simulated.
package class

import (
	"strconv"
	"strings"

	"example.com/stock/loadtest"
)

// A RunEvent is one line of the record of a run: a step that an instance reported, or an action or observation of the
// class.
type RunEvent struct {
	At   int64  `json:"at"`             // Unix time in µs, by the clock of the computer
	From string `json:"from"`           // the source: app-1, or class
	Boot int64  `json:"boot,omitempty"` // of an instance: its process; Seq begins at 1 in each
	Seq  uint64 `json:"seq"`            // order of the events of From within Boot
	Kind string `json:"kind"`
	Run  int    `json:"run,omitempty"`
	Req  string `json:"req,omitempty"` // X-Request-Id: the run and the number of the request in it, such as r3.17

	// steps of a sale
	Read      int64  `json:"read,omitempty"`
	Remaining int64  `json:"remaining,omitempty"`
	Version   uint64 `json:"version,omitempty"`
	Epoch     uint64 `json:"epoch,omitempty"`
	Segment   int    `json:"segment,omitempty"`
	Fence     string `json:"fence,omitempty"`
	Point     string `json:"point,omitempty"`
	Outcome   string `json:"outcome,omitempty"` // accepted, or the name of a problem; for answered also no_reply

	SKU      string `json:"sku,omitempty"`
	Replayed bool   `json:"replayed,omitempty"` // of ended and answered: the reply repeats that to an earlier request

	Who    string     `json:"who,omitempty"`    // fired: the customer, if it is a person
	Key    string     `json:"key,omitempty"`    // fired: the earlier request with the same Idempotency-Key
	Plan   *RunPlan   `json:"plan,omitempty"`   // run
	Stock  *StockSeen `json:"stock,omitempty"`  // stock
	Server string     `json:"server,omitempty"` // standing: its name
	State  string     `json:"state,omitempty"`  // standing: up, frozen, killed, starting, slow, cut
	Count  uint64     `json:"count,omitempty"`  // gap: steps lost in transit; rate: requests not sent
	On     bool       `json:"on,omitempty"`     // pause: at every point; voting: open; rate: on; stop: waits
	Votes  []int      `json:"votes,omitempty"`  // voting: by choice
	Crowd  int        `json:"crowd,omitempty"`  // crowd: students who have joined
	N      int        `json:"n,omitempty"`      // stop: its number in the scene
	Of     int        `json:"of,omitempty"`     // stop: how many the scene has
	Wakes  int        `json:"wakes,omitempty"`  // answered: how often the lock server woke the request
	Batch  string     `json:"batch,omitempty"`  // answered, and from acquired on: the batch in which it is sold
	Left   int64      `json:"left,omitempty"`   // leased: ms until the server frees the lock
	Full   int64      `json:"full,omitempty"`   // leased: ms of a new lease
	About  string     `json:"about,omitempty"`  // voting: the scene that the question is about; empty: the next run
	Asked  string     `json:"asked,omitempty"`  // voting: the teacher's own question; empty: the prepared one

	// masters: what each of them answers, see askMasters; queue: the waiters in the server's order
	Answers []string `json:"answers,omitempty"`

	// of a played load
	counted bool              // stock: counted from the replies so far
	judge   *loadtest.Verdict // judged
}

// The kinds of the class's own events. Those of instances are in service.StepKind.
const (
	runBegan  = "run"      // a run begins: the stock was set
	fired     = "fired"    // a request was sent
	answered  = "answered" // its reply came, or no reply will
	allFired  = "all_fired"
	stockSeen = "stock"
	standing  = "standing" // a server's state
	gap       = "gap"      // steps of an instance were lost
	pausing   = "pause"
	voting    = "voting"
	crowd     = "crowd"
	rating    = "rate" // requests at a rate begin or end
	judged    = "judged"
	stopped   = "stop"    // a scene has come to one of its stops, or goes on
	autoPlay  = "auto"    // scenes play by themselves, or wait at each stop
	leased    = "leased"  // the server reported a new holder or, if On, a renewal
	freed     = "freed"   // the server reported that Req holds the lock no more
	queued    = "queue"   // the server reported other waiters
	answersOf = "masters" // the masters of Redlock have answered otherwise than before
)

// class is From of the class's own events.
const class = "class"

// A StockSeen is the stock as read from the store.
type StockSeen struct {
	Known   bool  `json:"known"` // false: the store cannot be read
	Initial int64 `json:"initial"`
	Written int64 `json:"written"` // the number in the store
	Sold    int64 `json:"sold"`    // counted from the orders
}

// A RunPlan has the parameters of a run.
type RunPlan struct {
	Strategy   string `json:"strategy"`
	Store      string `json:"store"`
	Stock      int64  `json:"stock"`
	Requests   int    `json:"requests"`          // all at once
	Rate       int    `json:"rate,omitempty"`    // a second; then Requests is 0
	Seconds    int    `json:"seconds,omitempty"` // duration of the rate; 0: until stopped
	ThinkMS    int    `json:"think_ms"`
	Goods      int    `json:"goods,omitempty"` // SKUs, each with Stock units and its own lock; 0: one
	Instances  int    `json:"instances"`       // that get requests, of 3
	Unfenced   bool   `json:"unfenced,omitempty"`
	IgnoreLoss bool   `json:"deaf,omitempty"` // continue after the lease is lost
	Scene      string `json:"scene,omitempty"`

	// from the strategy's promise, for the page
	Exclusive bool   `json:"exclusive"`
	Scope     string `json:"scope"`
	Fenced    bool   `json:"fenced"`
}

// runOf returns the run of a request, or 0 for a request that is not of a class.
func runOf(req string) int {
	head, _, ok := strings.Cut(req, ".")
	run, is := strings.CutPrefix(head, "r")
	if !ok || !is {
		return 0
	}
	return natural(run)
}

// nameOf returns the id of a request.
func nameOf(run, number int) string { return "r" + strconv.Itoa(run) + "." + strconv.Itoa(number) }

// numberOf returns the number of a request in its run, or 0 if it has none.
func numberOf(req string) int {
	_, tail, _ := strings.Cut(req, ".")
	return natural(tail)
}

// natural returns a number in decimal digits alone, or 0 for anything else, such as a number that no class comes to.
func natural(digits string) int {
	n, err := strconv.ParseUint(digits, 10, 24)
	if err != nil {
		return 0
	}
	return int(n)
}
