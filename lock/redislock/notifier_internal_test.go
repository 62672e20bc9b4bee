package redislock

import (
	"testing"
	"time"

	"example.com/stock/lock"
)

// A waiter that was stopped hears late of grants. It takes only the one that answers its last request, and relies on it
// for no longer than a grant lives.
func TestAWaiterTakesNoOldGrant(t *testing.T) {
	n := &notifier{waiters: make(map[string]*waiter)}
	w := n.add("p:1 me\n7")
	for range 2 {
		n.next(w)
	}
	for message, want := range map[string]lock.Fence{
		"p:1 me\n7\n1\n64": lock.NoFence, "p:1 me\n7\n2\n128": 128, "p:2 me\n2\n64": lock.NoFence, "p:1\n2": 0,
	} {
		if g, ok := parseGrant(message); ok {
			n.notify(g)
		}
		got := lock.NoFence
		select {
		case got = <-w.granted:
		default:
		}
		if got != want {
			t.Errorf("%q: the fence %d, want %d", message, got, want)
		}
	}
	n.notify(grant{"p:1 me\n7", 2, 192})
	n.next(w)
	if len(w.granted) > 0 {
		t.Error("a new request takes an old grant")
	}
	o := WatchdogOptions{Lease: time.Minute}
	if o.keep(grantLease).First != grantLease || o.takes(grantLease/2) {
		t.Error("a grant is believed for longer than it lives")
	}
}
