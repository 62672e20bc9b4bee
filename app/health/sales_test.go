package health_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/app/health"
)

// Every sale fails only if there are many failures, of several customers and SKUs, and no sale between them.
func TestWhenEverySaleFails(t *testing.T) {
	fail := func(s *health.Sales, n, customers, skus int) (began int) {
		for i := range n {
			if s.Failed(fmt.Sprint("c", i%customers), fmt.Sprint("sku", i%skus)) {
				began++
			}
		}
		return began
	}
	for name, row := range map[string]struct {
		n, customers, skus int
		want               bool
	}{
		"all":             {health.FailedSales, health.FailedCustomers, health.FailedSKUs, true},
		"one too few":     {health.FailedSales - 1, health.FailedCustomers, health.FailedSKUs, false},
		"one customer":    {1000, 1, 9, false},
		"one SKU":         {1000, 9, 1, false},
		"a customer less": {1000, health.FailedCustomers - 1, 9, false},
		"a SKU less":      {1000, 9, health.FailedSKUs - 1, false},
	} {
		var s health.Sales
		if began := fail(&s, row.n, row.customers, row.skus); s.Fail() != row.want || (began == 1) != row.want {
			t.Errorf("%s: %v, began %d times", name, s.Fail(), began)
		}
	}
	var s health.Sales
	fail(&s, health.FailedSales-1, 9, 9)
	s.Sold()
	fail(&s, health.FailedSales-1, 9, 9)
	if s.Fail() {
		t.Error("the failures before a sale count")
	}
	fail(&s, 1, 9, 9)
	if !s.Fail() {
		t.Error("the failures after a sale do not count")
	}
	if s.Sold(); s.Fail() {
		t.Error("a sale does not end it")
	}
}

// It ends by itself, and begins again only with as many failures as the first time.
func TestItEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s health.Sales
		for round := range 3 {
			for i := range health.FailedSales {
				if s.Fail() {
					t.Errorf("round %d: it fails after %d failures", round, i)
				}
				s.Failed(fmt.Sprint("c", i), fmt.Sprint("sku", i))
			}
			time.Sleep(health.SalesRetry - time.Nanosecond)
			if !s.Fail() {
				t.Errorf("round %d: it is over too early", round)
			}
			if time.Sleep(time.Nanosecond); s.Fail() {
				t.Errorf("round %d: it is not over", round)
			}
		}
	})
}
