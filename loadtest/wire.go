package loadtest

import "time"

// Stock is what the service says of one SKU in one store.
type Stock struct {
	SKU      string `json:"sku"`
	Store    string `json:"store"`
	Quantity int64  `json:"quantity"` // units left
	Initial  int64  `json:"initial"`  // units there were when it was last set
	Sold     int64  `json:"sold"`     // units sold since, counted from the orders
	Version  uint64 `json:"version"`  // grows with every write
	Epoch    uint64 `json:"epoch"`    // grows every time that the stock is set
	Fence    uint64 `json:"fence,omitempty"`
	Guard    string `json:"guard,omitempty"` // the only strategy that may write in this epoch

	Mapped   bool `json:"mapped,omitempty"`   // of somebody else's API: Version is how many units are gone, Sold is not counted
	Unlisted bool `json:"unlisted,omitempty"` // that API lists no orders: the replies are the only evidence of sales
}

// An Order is the store's evidence of units sold.
type Order struct {
	OrderID   string    `json:"order_id"`
	SKU       string    `json:"sku"`
	Quantity  int64     `json:"quantity"`
	Read      int64     `json:"read"`      // quantity that the sale read
	Remaining int64     `json:"remaining"` // quantity that the sale wrote
	Version   uint64    `json:"version"`   // version that the sale read
	Epoch     uint64    `json:"epoch"`
	Strategy  string    `json:"strategy"`
	Instance  string    `json:"instance"`
	RequestID string    `json:"request_id"`
	Fence     uint64    `json:"fence,omitempty"`   // that the write carried
	Segment   int       `json:"segment,omitempty"` // that read, remaining and version are of; 0: of the whole stock
	Blind     bool      `json:"blind,omitempty"`   // somebody else's API, which does not tell read, remaining and version
	CreatedAt time.Time `json:"created_at,omitzero"`
}

// The scopes of a Promise: how far lost updates are excluded.
const (
	Nowhere = "none"    // lost updates are to be expected
	Process = "process" // among the requests of one instance
	Cluster = "cluster" // among all instances
)

// A Promise is what a strategy claims, as far as a load run can check it.
type Promise struct {
	Exclusive bool   `json:"exclusive"` // a lock: one holder at a time
	Scope     string `json:"scope"`
	Fenced    bool   `json:"fenced"`
	Fair      bool   `json:"fair"`
	Blocking  bool   `json:"blocking"`
}

// A Strategy is one line of the service's catalogue.
type Strategy struct {
	Name         string   `json:"name"`
	Endpoint     string   `json:"endpoint"`
	Summary      string   `json:"summary,omitempty"`
	Stores       []string `json:"stores,omitempty"`
	DefaultStore string   `json:"default_store,omitempty"`
	Available    bool     `json:"available"`
	Reason       string   `json:"reason,omitempty"` // why it is not available
	// DownStores are those of Stores that cannot be used now, with the reason.
	DownStores map[string]string `json:"down_stores,omitempty"`
	Promise    Promise           `json:"promise"`
	RoundTrips int               `json:"round_trips,omitempty"` // to acquire the lock and to release it, uncontended; 0: none, or not told
}
