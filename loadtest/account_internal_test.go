package loadtest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A lateInventory refuses to list its orders for a while.
type lateInventory struct {
	until   time.Time
	problem string
}

func (lateInventory) SetStock(context.Context, string, string, int64) (Stock, error) {
	return Stock{}, nil
}

func (lateInventory) Stock(context.Context, string, string) (Stock, error) {
	return Stock{Version: 7}, nil
}

func (s lateInventory) Orders(context.Context, string, string) ([]Order, error) {
	if time.Now().Before(s.until) {
		return nil, &TargetError{
			"http://shop",
			fmt.Errorf("refuses GET orders: %w", &Problem{Type: "/problems/" + s.problem, Status: 503}),
		}
	}
	return []Order{{}}, nil
}

// If a server comes back soon after the load, its orders are read. A server that stays away, or another refusal, does
// not delay the verdict.
func TestAccountWaitsForAServerThatComesBack(t *testing.T) {
	for _, row := range []struct {
		problem    string
		away, took time.Duration
		complete   bool
	}{
		{"backend_down", 2 * time.Second, 2 * time.Second, true},
		{"backend_down", time.Hour, comeback, false},
		{"forbidden", 2 * time.Second, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			a := account(t.Context(), lateInventory{began.Add(row.away), row.problem}, Stock{}, "redis", false,
				began.Add(comeback))
			if took := time.Since(began); a.Complete != row.complete || took < row.took || took > row.took+time.Second {
				t.Errorf("%+v: complete %t after %v: %s", row, a.Complete, took, a.Gap)
			}
		})
	}
}
