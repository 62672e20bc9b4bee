package selltest

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/service"
)

// A guard that keeps nobody out ends by itself when its stock rests; one that excludes others everywhere does not, and
// neither does one whose stock was written to.
func TestTheGuardOfAWeakStrategyEnds(t *testing.T) {
	t.Parallel()
	const rest = 300 * time.Millisecond
	for name, weak := range map[string]bool{"weak": true, "strong": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, service.Atomically, redisStore(t), func(c *service.Config) {
				c.GuardIdle = rest
				other := c.Strategies["it"]
				other.Weak = weak
				c.Strategies["other"] = other
			})
			first := func(r *service.Request) { r.Strategy = "other" }
			if _, err := s.sell(t.Context(), first); err != nil {
				t.Fatal(err)
			}
			refused := func(when string) {
				t.Helper()
				_, err := s.sell(t.Context())
				if guarded, ok := errors.AsType[*service.GuardError](err); !ok || guarded.Guard != "other" {
					t.Fatalf("%s: %v, want a GuardError", when, err)
				}
			}
			refused("at once")
			time.Sleep(2 * rest)
			if _, err := s.sell(t.Context(), first); err != nil { // it is sold from: it does not rest
				t.Fatal(err)
			}
			refused("after a sale")
			time.Sleep(2 * rest)
			if !weak {
				refused("later")
				return
			}
			sold, err := s.sell(t.Context())
			if err != nil || sold.Read != initial-2 || sold.Remaining != initial-3 {
				t.Fatalf("%+v, %v: want a sale of what is left", sold, err)
			}
			// Now it is the other one that is refused, and that does not end: "it" is not weak.
			time.Sleep(2 * rest)
			if _, err := s.sell(t.Context(), first); !errors.Is(err, service.ErrGuarded) {
				t.Errorf("the guard of before: %v, want ErrGuarded", err)
			}
		})
	}
}
