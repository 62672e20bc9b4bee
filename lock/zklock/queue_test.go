package zklock

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

func TestParse(t *testing.T) {
	for _, row := range []struct {
		why, name string
		sequence  int32
		ours      bool
	}{
		{"Curator's and ours", "_c_6f1b7c1e-9a3c-4a53-9d1a-0c8f3f5d7e21-lock-0000000012", 12, true},
		{"the client library's own lock", "_c_8f14e45fceea167a5a36dedd4bea2543-lock-2147483647", 2147483647, true},
		{"after the counter wrapped", "_c_x-lock--2147483648", -2147483648, true},
		{"ten digits with the sign", "_c_x-lock--000000001", -1, true},
		{"a guid that looks like a lock", "_c_-lock-0000000001-lock-0000000002", 2, true},
		{"kazoo: another queue, if anything", "6f1b__lock__0000000001", 0, false},
		{"too short", "_c_x-lock-12", 0, false},
		{"too large", "_c_x-lock-2147483648", 0, false},
		{"padded", "_c_x-lock-00000000012", 0, false},
		{"minus nothing", "_c_x-lock--000000000", 0, false},
		{"signed", "_c_x-lock-+000000012", 0, false},
		{"no number", "_c_x-lock-", 0, false},
	} {
		if c, ok := parseName(row.name); ok != row.ours || ok && c.sequence != row.sequence {
			t.Errorf("%s: parseName(%q) = %v, %v", row.why, row.name, c, ok)
		}
	}
}

// The queue is in the order of arrival, also where the counter wraps.
func TestQueueIsInOrder(t *testing.T) {
	for _, first := range []int32{0, 7, 1<<31 - 3, -1 << 31, -2} {
		var want, got []string
		for i := range int32(5) {
			want = append(want, fmt.Sprintf("_c_x-lock-%010d", first+i))
		}
		for _, n := range parseQueue([]string{"foreign", want[3], want[0], "x-lock-1", want[4], want[2], want[1]}) {
			got = append(got, n.name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// An operator deletes the node of a waiter that has two others before it. The waiter queues up again. And he writes to
// the holder's node: the waiter behind it is woken, and its turn has not come.
func TestDeletedWaiterQueuesAgain(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	queue := func() []string { return nodes(t, c, q.recipe) }
	holder := acquire(t, q)
	var woken atomic.Int32
	first := acquireLater(t, lock.Observe(q, lock.Events{Woken: func() { woken.Add(1) }}))
	locktest.Eventually(t, "one waits", func() bool { return len(queue()) == 2 && q.session.watchCount() == 1 })
	second := acquireLater(t, q)
	locktest.Eventually(t, "two wait", func() bool { return len(queue()) == 3 && q.session.watchCount() == 2 })
	must(t, c.Delete(queue()[2], -1))
	_, err := c.Set(queue()[0], []byte("written by another"), -1)
	must(t, err)
	locktest.Eventually(t, "the first looks again", func() bool { return woken.Load() > 0 })
	if len(first) > 0 {
		t.Error("got the lock while it is held")
	}
	locktest.Release(t, holder)
	locktest.Release(t, <-first)
	locktest.Release(t, <-second)
}

func TestRoots(t *testing.T) {
	for root, want := range map[string]string{ // folder of key k; empty: the root is refused
		"/": "/k", "/stock/locks/": "/stock/locks/k", "/a/zookeeper": "/a/zookeeper/k",
		"/zookeeper/locks": "", "stock": "", "//a": "", "/a//b": "", "/a/../b": "", "/a\x00": "",
	} {
		config, err := Config{Hosts: []string{"127.0.0.1:1"}, Root: root}.withDefaults()
		got := locker{&Session{config: config}, sequential{}}.folder("k")
		if (err == nil) != (want != "") || err == nil && got != want {
			t.Errorf("root %q: folder %q, %v; want %q", root, got, err, want)
		}
	}
	for _, c := range []Config{
		{Credentials: []string{"secret"}},
		{Credentials: []string{":secret"}},
		{Credentials: []string{ours, ""}},
		{CreatorOnly: true},
	} {
		c.Hosts = []string{"127.0.0.1:1"}
		if _, err := Dial(c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Names of nodes stay as they were: an older version must find them.
func TestEscape(t *testing.T) {
	for key, want := range map[string]string{
		"!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~": "!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~", "a /%\x7f": "a%20%2F%25%7F",
		".": "%2E", "..": "%2E.", "zookeeper": "%7Aookeeper", "...": "...", "😀\xff": "%F0%9F%98%80%FF",
	} {
		if got := escape(key); got != want {
			t.Errorf("escape(%q) = %q, want %q", key, got, want)
		}
	}
}
