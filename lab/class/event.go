// Package class is the live wall for a class: it starts real servers and instances, lets a teacher fire requests at
// them, hold each at any point, freeze and kill what it likes, and shows on a page for the projector what the instances
// say that they do. Students buy and vote on their phones.
//
// It is a client over HTTP: what it shows comes from the steps that instances in lab mode tell, from their replies and
// from the stock in the store. Nothing is simulated.
package class

import (
	"strconv"
	"strings"

	"example.com/stock/loadtest"
)

// A RunEvent is one line of the record of a run: a step that an instance told, or something that the class did or saw.
type RunEvent struct {
	At   int64  `json:"at"`             // Unix time in µs, by the clock of the computer
	From string `json:"from"`           // who says so: app-1, or class
	Boot int64  `json:"boot,omitempty"` // of an instance: its process, whose numbers begin at 1
	Seq  uint64 `json:"seq"`            // in the order of From, within Boot
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
	Outcome   string `json:"outcome,omitempty"` // accepted, or the name of a problem; of answered also no_reply

	Replayed bool `json:"replayed,omitempty"` // of ended and answered: it is the reply to an earlier request

	Who    string     `json:"who,omitempty"`    // fired: the customer, if a person asked
	Key    string     `json:"key,omitempty"`    // fired: the earlier request whose Idempotency-Key it has
	Plan   *RunPlan   `json:"plan,omitempty"`   // run
	Stock  *StockSeen `json:"stock,omitempty"`  // stock
	Server string     `json:"server,omitempty"` // standing: which
	State  string     `json:"state,omitempty"`  // standing: up, frozen, killed, starting, slow, cut
	Count  uint64     `json:"count,omitempty"`  // gap: steps that were lost on the way here; rate: requests not sent
	On     bool       `json:"on,omitempty"`     // pause: every sale stops at each point; voting: votes are taken; rate
	Votes  []int      `json:"votes,omitempty"`  // voting: by choice
	Crowd  int        `json:"crowd,omitempty"`  // crowd: students that have joined
	Words  []string   `json:"words,omitempty"`  // note: the key of a text and what to fill in

	// of a load that is played
	counted bool              // stock: it was counted from the replies so far
	judge   *loadtest.Verdict // judged
}

// The kinds of the class's own events. Those of instances are in service.StepKind.
const (
	runBegan  = "run"      // a run begins: the stock was set
	fired     = "fired"    // a request was sent
	answered  = "answered" // its reply came, or none
	allFired  = "all_fired"
	stockSeen = "stock"
	standing  = "standing" // a server's state
	gap       = "gap"      // steps of an instance were lost
	pausing   = "pause"
	voting    = "voting"
	crowd     = "crowd"
	note      = "note" // what the scene does now
	rating    = "rate" // requests begin to come at a rate, or end
	judged    = "judged"
)

// class is From of the events that no instance told.
const class = "class"

// A StockSeen is the stock as the store has it.
type StockSeen struct {
	Known   bool  `json:"known"` // false: the store cannot be asked
	Initial int64 `json:"initial"`
	Written int64 `json:"written"` // the number in the store
	Sold    int64 `json:"sold"`    // counted from the orders
}

// A RunPlan says what a run is.
type RunPlan struct {
	Strategy   string `json:"strategy"`
	Store      string `json:"store"`
	Stock      int64  `json:"stock"`
	Requests   int    `json:"requests"`          // all at once
	Rate       int    `json:"rate,omitempty"`    // a second; Requests is 0 then
	Seconds    int    `json:"seconds,omitempty"` // how long at this rate; 0: until it is stopped
	ThinkMS    int    `json:"think_ms"`
	Instances  int    `json:"instances"` // to which requests go: 1 or 3
	Unfenced   bool   `json:"unfenced,omitempty"`
	IgnoreLoss bool   `json:"deaf,omitempty"` // works on after the lease is lost
	Scene      string `json:"scene,omitempty"`

	// of the strategy, for the page: whether holds exclude each other, and how far its promise goes
	Exclusive bool   `json:"exclusive"`
	Scope     string `json:"scope"`
	Fenced    bool   `json:"fenced"`
}

// runOf returns the run of a request, 0 for one that is none of a class.
func runOf(req string) int {
	head, _, ok := strings.Cut(req, ".")
	if !ok || len(head) < 2 || head[0] != 'r' {
		return 0
	}
	n := 0
	for _, c := range head[1:] {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// nameOf returns the id of a request.
func nameOf(run, number int) string { return "r" + strconv.Itoa(run) + "." + strconv.Itoa(number) }

// numberOf returns the number of a request in its run.
func numberOf(req string) (n int) {
	_, tail, _ := strings.Cut(req, ".")
	for _, c := range tail {
		if c < '0' || c > '9' || n > 1<<20 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}
