package redislock_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
)

func TestRedlockTellsTheHolder(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute})
	if s := inspect(t, r, "k"); s.Holder != nil || s.Waiters != nil || s.Scope != lock.Cluster {
		t.Errorf("a free key: %+v", s)
	}
	held, err := r.Acquire(t.Context(), "k", lock.Options{Owner: "app-1/r 1"})
	if err != nil {
		t.Fatal(err)
	}
	m.each(t, 0, 2, (*stack.Server).Kill)
	h := inspect(t, lock.Observe(r, lock.Events{}), "k").Holder
	if h == nil || h.Who != "app-1/r 1" || h.Remaining <= 0 || h.Remaining > time.Minute || h.Fence != lock.NoFence || !h.Since.IsZero() {
		t.Errorf("with two nodes down: %+v, want app-1/r 1, a minute at most, neither fence nor since", h)
	}
	if keys, err := r.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if _, err := lock.Evict(t.Context(), r, "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("evict: %v, want ErrUnsupported: there is no fence", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	if s := inspect(t, r, "k"); s.Holder != nil {
		t.Errorf("after the release: %+v", s.Holder)
	}
}

// By what the nodes have, in order: the value, and the seconds that it lasts; empty: nothing. A "-" is a node that is down.
func TestRedlockMajorityView(t *testing.T) {
	m := fiveMasters(t)
	for _, row := range []struct {
		name      string
		nodes     []string
		lasts     []int
		holder    string // "": nobody
		remaining time.Duration
		keys      []string
		down      string // what the ErrDown says
	}{
		{"all", []string{"1 a", "1 a", "1 a", "1 a", "1 a"}, []int{10, 20, 30, 40, 50}, "a", 30 * time.Second, []string{"k"}, ""},
		{"three", []string{"", "1 a", "", "1 a", "1 a"}, []int{0, 70, 0, 60, 50}, "a", 50 * time.Second, []string{"k"}, ""},
		{"three, and two others", []string{"2 b", "1 a", "2 b", "1 a", "1 a"}, []int{90, 70, 90, 60, 50}, "a", 50 * time.Second, []string{"k"}, ""},
		{"two and two", []string{"2 b", "1 a", "2 b", "1 a", ""}, []int{90, 90, 90, 90, 0}, "", 0, []string{"k"}, ""},
		{"two", []string{"1 a", "1 a", "", "", ""}, []int{90, 90, 0, 0, 0}, "", 0, nil, ""},
		{"three of four", []string{"1 a", "1 a", "1 a", "", "-"}, []int{90, 80, 70, 0, 0}, "a", 70 * time.Second, []string{"k"}, ""},
		{"two, and one is down", []string{"1 a", "1 a", "", "", "-"}, []int{90, 90, 0, 0, 0}, "", 0, nil, `"a" has the key on 2 of 5 nodes, and 1 did not answer`},
		{"one, and one is down", []string{"1 a", "", "", "", "-"}, []int{90, 0, 0, 0, 0}, "", 0, nil, ""},
		{"three are down", []string{"1 a", "1 a", "-", "-", "-"}, []int{90, 90, 0, 0, 0}, "", 0, nil, "2 of 5 nodes count, 3 must"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for i, value := range row.nodes {
				m.eyes[i].FlushAll(t.Context())
				switch value {
				case "":
				case "-":
					m.each(t, i, i+1, (*stack.Server).Kill) // stays down for the rows below
				default:
					m.eyes[i].Set(t.Context(), "redlock:{k}", value, time.Duration(row.lasts[i])*time.Second)
				}
			}
			r := m.redlock(t, redislock.RedlockOptions{NodeTimeout: 5 * time.Second})
			s, err := r.Inspect(t.Context(), "k")
			if (err != nil) != (row.down != "") || err != nil && (!errors.Is(err, lock.ErrDown) || !mentions(err, row.down)) {
				t.Errorf("err = %v, want %q", err, row.down)
			}
			switch {
			case (s.Holder != nil) != (row.holder != ""):
				t.Errorf("holder %+v, want %q", s.Holder, row.holder)
			case s.Holder != nil && (s.Holder.Who != row.holder || s.Holder.Remaining > row.remaining || s.Holder.Remaining < row.remaining-9*time.Second):
				t.Errorf("holder %+v, want %s for %v", s.Holder, row.holder, row.remaining)
			}
			keys, err := r.Keys(t.Context())
			if !slices.Equal(keys, row.keys) || (err != nil) != strings.Contains(row.down, "must") {
				t.Errorf("keys %q, %v; want %q", keys, err, row.keys)
			}
		})
	}
}

// The log learns the addresses of nodes; what is safe to show to clients counts them.
func TestRedlockHidesAddresses(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{NodeTimeout: 5 * time.Second})
	m.eyes[0].Set(t.Context(), "full", "x", 0)
	m.eyes[0].ConfigSet(t.Context(), "maxmemory", "1")
	m.eyes[1].LPush(t.Context(), "redlock:{k}", "foreign")
	m.each(t, 2, 3, (*stack.Server).Kill)
	_, inspected := r.Inspect(t.Context(), "k")
	if inspected != nil {
		t.Errorf("three of five answer: %v", inspected)
	}
	acquired := busy(t, r)
	m.each(t, 3, 4, (*stack.Server).Kill)
	_, inspected = r.Inspect(t.Context(), "k")
	m.each(t, 4, 5, (*stack.Server).Kill)
	_, listed := r.Keys(t.Context())
	for what, row := range map[string]struct {
		err   error
		shown []string
	}{
		"Acquire": {acquired, []string{"2 of 5 nodes count, 3 must", "node 1 says OOM: it is out of memory", "node 2 says WRONGTYPE: it has no lock", "node 3 is not reached"}},
		"Inspect": {inspected, []string{"node 2 says WRONGTYPE", "node 4 is not reached"}},
		"Keys":    {listed, []string{"2 of 5 nodes count", "node 5 is not reached"}},
		"CheckMasters": {
			redislock.CheckMasters(t.Context(), m.eyes, 0),
			[]string{"node 3 is not reached", "node 4 is not reached", "node 5 is not reached"},
		},
	} {
		var down *lock.DownError
		if !errors.Is(row.err, lock.ErrDown) || !errors.As(row.err, &down) {
			t.Errorf("%s: %v, want ErrDown", what, row.err)
			continue
		}
		for _, text := range row.shown {
			if !strings.Contains(down.Error(), text) {
				t.Errorf("%s shows %q, want %q in it", what, down, text)
			}
		}
		if strings.Contains(down.Error(), "127.0.0.1") {
			t.Errorf("%s shows an address: %v", what, down)
		}
		if !strings.Contains(row.err.Error(), m.servers[2].Addr+" is not reached (connect: connection refused)") {
			t.Errorf("%s: the log does not learn the address: %v", what, row.err)
		}
	}
}
