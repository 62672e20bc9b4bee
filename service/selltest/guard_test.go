package selltest

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/service"
)

// A guard that keeps nobody out ends by itself when its stock rests; one that excludes others everywhere does not, and
// neither does one whose stock was written to.
func TestTheGuardOfAWeakStrategyEnds(t *testing.T) {
	for name, weak := range map[string]bool{"weak": true, "strong": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &shelf{}
				s := stage(t, service.Atomically, store, func(c *service.Config) {
					other := c.Strategies["it"]
					other.Weak = weak
					c.Strategies["other"] = other
				})
				refused := func(when string) {
					t.Helper()
					_, err := s.sell(t.Context())
					if guarded, ok := errors.AsType[*service.GuardError](err); !ok || guarded.Guard != "other" {
						t.Fatalf("%s: %v, want a GuardError", when, err)
					}
				}
				store.stock.Guard = "other"
				refused("at once")
				time.Sleep(service.GuardIdle - time.Nanosecond)
				refused("a moment too early")
				if _, err := s.sell(t.Context(), func(r *service.Request) { r.Strategy = "other" }); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Nanosecond)
				refused("after a sale: the stock does not rest")
				time.Sleep(service.GuardIdle)
				if !weak {
					refused("later")
					return
				}
				sold, err := s.sell(t.Context())
				if err != nil || sold.Read != initial-1 || sold.Remaining != initial-2 {
					t.Errorf("%+v, %v: want a sale of what is left", sold, err)
				}
			})
		})
	}
}
