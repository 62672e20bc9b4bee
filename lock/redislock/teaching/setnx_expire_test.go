package teaching

import (
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock/redislock/internal/request"
)

// What a holder that crashed between SETNX and PEXPIRE leaves is stuck, but only when the same holder has been seen
// without an expiry for a second: several holders that are seen so one after the other have not crashed.
func TestOnlyTheSameHolderIsSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSetNXExpire(nil, SetNXExpireOptions{Repair: true})
		defer s.Close()
		for i, row := range []struct {
			holder string
			ttl    time.Duration
			stuck  bool
		}{
			{"one", -1, false},
			{"two", -1, false},
			{"two", time.Second, false},
			{"two", -1, false},
			{"two", -1, true},
			{"", -2, false},
			{"three", -1, false},
		} {
			if got := s.isStuck("k", request.Found{Value: row.holder, TTL: row.ttl}); got != row.stuck {
				t.Errorf("%d: %s with %v is stuck: %t, want %t", i, row.holder, row.ttl, got, row.stuck)
			}
			time.Sleep(repairAfter)
		}
	})
}
