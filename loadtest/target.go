package loadtest

import (
	"context"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// A Target is a service that Run puts load on: an instance of our own service (Client), or a foreign one (see package
// mapping). It is safe for concurrent use.
type Target interface {
	// URL returns the address, for reports.
	URL() string
	// Strategies returns the strategies that the target offers.
	Strategies(ctx context.Context) ([]Strategy, error)
	// Deduct requests one deduction, once, until ctx ends. It returns no error: every way to end is an Outcome.
	Deduct(ctx context.Context, r Request) Reply
	Inventory
}

// An Inventory reads and sets stock. It is the evidence that does not come from replies. Errors are TargetErrors.
type Inventory interface {
	SetStock(ctx context.Context, store, sku string, quantity int64) (Stock, error)
	Stock(ctx context.Context, store, sku string) (Stock, error)
	// Orders returns all orders since the stock was set. A target whose Stock is Unlisted returns none.
	Orders(ctx context.Context, store, sku string) ([]Order, error)
}

// An assumer is a target that does not report the initial stock. Assume takes it from look, or derives it from what it
// can read.
type assumer interface {
	Assume(ctx context.Context, look Look) (initial int64, err error)
}

// A warmer is a target that opens n connections before the start.
type warmer interface {
	Warm(ctx context.Context, n int)
}

// Stock is the service's report on one SKU in one store.
type Stock struct {
	SKU      string `json:"sku"`
	Store    string `json:"store"`
	Quantity int64  `json:"quantity"` // units left
	Initial  int64  `json:"initial"`  // units when the stock was last set
	Sold     int64  `json:"sold"`     // units sold since, counted from the orders
	Version  uint64 `json:"version"`  // grows with every write
	Epoch    uint64 `json:"epoch"`    // another every time that the stock is set
	Fence    uint64 `json:"fence,omitempty"`
	Guard    string `json:"guard,omitempty"` // the only strategy that may write in this epoch

	// from a foreign API: Version is the number of deducted units, and Sold is not counted
	Mapped   bool `json:"mapped,omitempty"`
	Unlisted bool `json:"unlisted,omitempty"` // a foreign API that lists no orders: the replies are the only evidence
}

// An Order is the store's evidence of units sold.
type Order struct {
	OrderID   string `json:"order_id"`
	SKU       string `json:"sku"`
	Quantity  int64  `json:"quantity"`
	Read      int64  `json:"read"`      // quantity that the sale read
	Remaining int64  `json:"remaining"` // quantity that the sale wrote
	Version   uint64 `json:"version"`   // version that the sale read
	Epoch     uint64 `json:"epoch"`
	Strategy  string `json:"strategy"`
	Instance  string `json:"instance"`
	RequestID string `json:"request_id"`
	Fence     uint64 `json:"fence,omitempty"`   // the fence that the write carried
	Segment   int    `json:"segment,omitempty"` // the segment that was sold from; 0: none
	// a foreign API that does not report read, remaining and version
	Blind     bool      `json:"blind,omitempty"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// The scopes of a Promise: how far lost updates are excluded.
const (
	Nowhere = "none"    // lost updates may happen
	Process = "process" // among the requests of one instance
	Cluster = "cluster" // among all instances
)

// A Promise is the part of a strategy's promise that a load run can check.
type Promise struct {
	Exclusive bool   `json:"exclusive"` // a lock: one holder at a time
	Scope     string `json:"scope"`
	Fenced    bool   `json:"fenced"`
	Fair      bool   `json:"fair"`
	Blocking  bool   `json:"blocking"`
}

// A Strategy is one entry of the catalogue of the service.
type Strategy struct {
	Name         string   `json:"name"`
	Endpoint     string   `json:"endpoint"`
	Summary      string   `json:"summary,omitempty"`
	Stores       []string `json:"stores,omitempty"`
	DefaultStore string   `json:"default_store,omitempty"`
	Available    bool     `json:"available"`
	Reason       string   `json:"reason,omitempty"` // why it is unavailable
	// DownStores are the Stores that cannot be used now, with the reason.
	DownStores map[string]string `json:"down_stores,omitempty"`
	Promise    Promise           `json:"promise"`
	// to acquire and release the lock, uncontended; 0: no lock, or not reported
	RoundTrips int `json:"round_trips,omitempty"`
}

// Find returns the strategy with that name. The error is a PlanError that has the names near it.
func Find(catalogue []Strategy, name string) (Strategy, error) {
	i := slices.IndexFunc(catalogue, func(s Strategy) bool { return s.Name == name })
	if i < 0 {
		return Strategy{}, &PlanError{"strategy", UnknownStrategy(name, names(catalogue)).Said()}
	}
	return catalogue[i], nil
}

// UnknownStrategy returns the error for a name that is none of known, which are the names of strategies.
func UnknownStrategy(name string, known []string) *words.Error {
	return words.Unknown(say("strategy"), name, known)
}

// Choose returns the strategies with the given names, in that order. The single name "all" means all that can run now
// on store (empty: on any); then leftOut gives the reason for each of the others. Errors are PlanErrors.
func Choose(catalogue []Strategy, given []string, store string) (chosen []Strategy, leftOut []words.Text, err error) {
	bad := func(key string, pairs ...any) ([]Strategy, []words.Text, error) {
		return nil, nil, wrong("strategy", key, pairs...)
	}
	switch {
	case len(given) == 0:
		return bad("no-strategy", "names", strings.Join(names(catalogue), ", "))
	case slices.Equal(given, []string{"all"}):
		for _, s := range catalogue {
			switch {
			case !s.Available:
				leftOut = append(leftOut, say("left-out", "strategy", s.Name, "why", s.Reason))
			case store != "" && len(s.Stores) > 0 && !slices.Contains(s.Stores, store):
				leftOut = append(leftOut,
					say("left-out-store", "strategy", s.Name, "stores", either(s.Stores), "store", store))
			default:
				chosen = append(chosen, s)
			}
		}
		if len(chosen) == 0 {
			return bad("none-now", "why", words.Join(leftOut, say("semicolon")))
		}
		return chosen, leftOut, nil
	}
	for i, name := range given {
		if name == "all" {
			return bad("all-alone")
		}
		if slices.Contains(given[:i], name) {
			return bad("named-twice", "name", name)
		}
		s, err := Find(catalogue, name)
		if err != nil {
			return nil, nil, err
		}
		chosen = append(chosen, s)
	}
	return chosen, nil, nil
}

// either joins names: "redis and mysql".
func either(list []string) words.Text {
	texts := make([]words.Text, len(list))
	for i, name := range list {
		texts[i] = words.Same(name)
	}
	return words.Join(texts, say("and"))
}

func names(catalogue []Strategy) []string {
	list := make([]string, len(catalogue))
	for i, s := range catalogue {
		list[i] = s.Name
	}
	return list
}
