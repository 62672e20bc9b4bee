package class

import (
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// A scene that is started while an earlier run still sells shows what it shows alone: the earlier run takes no unit of
// it, does not hold its lock, and leaves no request behind.
func TestASceneDuringASlowRun(t *testing.T) {
	c := lesson(t)
	slow := RunPlan{Strategy: "redis-setnx", Store: "redis", Stock: 10, Requests: 6, ThinkMS: 1500}
	if err := c.Fire(slow); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "a request of the slow run has the lock", func() (found bool, seen string) {
		c.look(func(s *State) {
			for _, r := range s.reqs {
				found = found || r.seen.Phase == "thinks"
			}
			seen = fmt.Sprint(len(s.reqs))
		})
		return found, seen
	})
	c.mu.Lock()
	asking := c.asking
	c.mu.Unlock()
	c.Auto(true)
	if err := c.Play("frozen_unfenced"); err != nil {
		t.Fatal(err)
	}
	if asking.ctx.Err() == nil {
		t.Error("the requests of the slow run go on")
	}
	asking.on.Wait()
	if v := c.rest(t); v.Sold != 2 || v.Written != 9 || v.Lost != 1 || v.Code != "race" {
		t.Errorf("%+v, want an update that is lost: A and B sold, and 9 of 10 are left", v)
	}
}
