package health

import (
	"sync"
	"time"
)

// Limits of Sales. Below them a failure may be of one SKU, or of one customer, and a client must not be able to take
// an instance out of service.
const (
	FailedSales     = 10 // failures in a row
	FailedSKUs      = 3  // SKUs among them
	FailedCustomers = 3  // customers among them
	// SalesRetry is how long an instance stays out of service after its last failed sale. Then it sells again, because
	// without requests nothing would show that the cause has gone.
	SalesRetry = 5 * time.Second
)

// Sales notices that every sale fails although the servers pass their checks, for example because a right that no
// check needs was revoked. It is safe for concurrent use. The zero value is ready to use.
type Sales struct {
	mu        sync.Mutex
	failed    int
	skus      map[string]bool // of the failures; no more than FailedSKUs
	customers map[string]bool // of the failures; no more than FailedCustomers
	last      time.Time       // of the failures
}

// Sold records a sale. It ends the row of failures.
func (s *Sales) Sold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = 0
}

// Failed records a sale that failed for no reason that the customer or the stock explains. It returns true if Fail is
// true from now on.
func (s *Sales) Failed(customer string, skus ...string) (began bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.fail()
	if s.failed == 0 || time.Since(s.last) >= SalesRetry {
		s.failed, s.skus, s.customers = 0, map[string]bool{}, map[string]bool{}
	}
	s.failed++
	s.last = time.Now()
	for _, sku := range skus {
		if len(s.skus) < FailedSKUs {
			s.skus[sku] = true
		}
	}
	if len(s.customers) < FailedCustomers && customer != "" {
		s.customers[customer] = true
	}
	return !before && s.fail()
}

// Fail reports whether every sale fails.
func (s *Sales) Fail() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail()
}

func (s *Sales) fail() bool {
	return s.failed >= FailedSales && len(s.skus) >= FailedSKUs && len(s.customers) >= FailedCustomers &&
		time.Since(s.last) < SalesRetry
}
