package service

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"
)

// What is remembered of stocks that sold out has a bound: one more, and all are forgotten but that. To note one that is
// known forgets none.
func TestSoldOutStocksAreBounded(t *testing.T) {
	r := newSoldOut(time.Second)
	key := func(i int) stockKey { return stockKey{nil, SKU(strconv.Itoa(i))} }
	for i := range maxLeft {
		r.note(key(i), 1)
	}
	r.note(key(0), 7)
	if len(r.last) != maxLeft || r.last[key(0)].left != 7 || r.last[key(1)].left != 1 {
		t.Errorf("%d are remembered, want %d; the first has %d left", len(r.last), maxLeft, r.last[key(0)].left)
	}
	r.note(key(maxLeft), 2)
	if len(r.last) != 1 || r.last[key(maxLeft)].left != 2 {
		t.Errorf("one more: %d are remembered", len(r.last))
	}
}

// Since when a stock has a tag is remembered, for a bounded number of stocks. Another tag begins anew.
func TestIdleStocksAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var i idle
		began := time.Now()
		key := func(n int) idleKey { return idleKey{"redis", SKU(strconv.Itoa(n))} }
		for n := range maxIdle {
			i.since(key(n), "1-1")
		}
		time.Sleep(time.Second)
		if since := i.since(key(0), "1-1"); since != began || len(i.seen) != maxIdle {
			t.Errorf("since %v ago, %d are remembered", time.Since(since), len(i.seen))
		}
		if since := i.since(key(maxIdle), "1-1"); since != time.Now() || len(i.seen) != 1 {
			t.Errorf("one more: since %v ago, %d are remembered", time.Since(since), len(i.seen))
		}
		if since := i.since(key(0), "1-1"); since != time.Now() {
			t.Errorf("one that was forgotten: since %v ago", time.Since(since))
		}
		time.Sleep(time.Second)
		if since := i.since(key(0), "1-2"); since != time.Now() {
			t.Errorf("another tag: since %v ago", time.Since(since))
		}
	})
}
