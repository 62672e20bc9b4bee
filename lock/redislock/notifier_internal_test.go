package redislock

import (
	"testing"
	"time"

	"example.com/stock/lock"
)

// What no clause sees of old grants: one that came in the moment of the next request, the owner whose name has lines,
// and for how long a grant is believed.
func TestGrants(t *testing.T) {
	g, ok := parseGrant("p:1 me\n7\n2\n128")
	if want := (grant{"p:1 me\n7", 2, 128}); !ok || g != want {
		t.Errorf("%+v, %t; want %+v", g, ok, want)
	}
	n := &notifier{waiters: make(map[string]*waiter)}
	w := n.add("p:1 me")
	n.notify(grant{"p:1 me", n.next(w), 128})
	n.next(w)
	select {
	case fence := <-w.granted:
		t.Errorf("a new request takes the grant %d of the one before", fence)
	default:
	}
	o := WatchdogOptions{Lease: time.Minute}
	if o.keep(grantLease).First != grantLease || o.takes(lock.Valid(grantLease)/2) {
		t.Error("a grant is believed for longer than it lives")
	}
}
