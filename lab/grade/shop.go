package grade

import (
	"fmt"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// A shop is the store that the critical section reads and writes. It writes blindly, as SET stock = 9 does, so that
// only the lock prevents a lost update. It checks fences: it refuses a write whose fence is smaller than the largest
// that it has seen.
type shop struct {
	mu      sync.Mutex
	initial int64
	left    int64
	version uint64
	fence   uint64
	orders  []loadtest.Order
	refused int
}

const sku = "stock"

func newShop(units int64) *shop { return &shop{initial: units, left: units, version: 1} }

// A reading is the stock as a sale has read it.
type reading struct {
	left    int64
	version uint64
}

func (s *shop) read() reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reading{s.left, s.version}
}

// write sells one unit of what was read. It returns false if it refuses the fence.
func (s *shop) write(who string, r reading, fence uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence > 0 && fence < s.fence {
		s.refused++
		return false
	}
	s.fence = max(s.fence, fence)
	s.left = r.left - 1
	s.version++
	s.orders = append(s.orders, loadtest.Order{
		OrderID: fmt.Sprintf("%s-%d", who, len(s.orders)+1), SKU: sku, Quantity: 1, Read: r.left, Remaining: s.left,
		Version: r.version, Epoch: 1, RequestID: who, Fence: fence, CreatedAt: time.Now().UTC(),
	})
	return true
}

// judge gives the history to the judge of the load test, which looks for two orders that read the same version.
func (s *shop) judge() loadtest.Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := loadtest.Stock{SKU: sku, Quantity: s.initial, Initial: s.initial, Version: 1, Epoch: 1}
	after := before
	after.Quantity, after.Version, after.Fence = s.left, s.version, s.fence
	after.Sold = int64(len(s.orders))
	return loadtest.Judge(loadtest.Evidence{
		Accounts: []loadtest.Account{{Before: before, After: &after, Orders: s.orders, Complete: true}},
		Shared:   true, // the orders are the whole evidence: there are no replies to compare them with
	})
}

// oversold returns why the history shows a lost update. ok is false if it shows none.
func oversold(v loadtest.Verdict) (why words.Text, ok bool) {
	if !v.RaceSeen {
		return words.Text{}, false
	}
	if len(v.Certificates) == 0 {
		return say("why.oversold", "sold", v.AcceptedUnits, "initial", v.InitialUnits, "left", v.RemainingUnits), true
	}
	c := v.Certificates[0]
	one, other := c.Orders[0], c.Orders[1]
	return say("why.same-version", "one", one.RequestID, "other", other.RequestID, "read", one.Read,
		"version", c.Version, "sold", v.AcceptedUnits, "gone", v.InitialUnits-v.RemainingUnits), true
}
