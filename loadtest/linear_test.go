package loadtest_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/stock/loadtest"
)

// A clocked counter runs an interleaving of read and write steps, one per millisecond, and records when each request
// was sent and answered.
type clocked struct {
	*counter
	now  time.Time
	sent map[int]time.Time // by client
}

func newClocked(stock int64, exclusive bool) *clocked {
	return &clocked{
		counter: &counter{tape: newTape(stock), exclusive: exclusive, reading: make(map[int]pending)},
		now:     noon, sent: make(map[int]time.Time),
	}
}

func (c *clocked) step(client int, want int64) {
	c.now = c.now.Add(time.Millisecond)
	if _, writing := c.reading[client]; !writing {
		c.sent[client] = c.now
	}
	before := len(c.records)
	c.counter.step(client, want)
	if len(c.records) > before {
		r := &c.records[before]
		r.Worker, r.SentAt, r.DoneAt = client, c.sent[client], c.now
	}
}

// Generated interleavings of a right and of a wrong counter, some with lost replies, some with unreadable orders:
// porcupine never passes one that lost an update, and never fails one that did not.
func TestPorcupineTellsCountersApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClocked(rapid.Int64Range(0, 20).Draw(t, "stock"), rapid.Bool().Draw(t, "exclusive"))
		clients := rapid.IntRange(1, 5).Draw(t, "clients")
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			c.step(rapid.IntRange(1, clients).Draw(t, "client"), rapid.Int64Range(1, 3).Draw(t, "want"))
		}
		for client := range clients {
			if _, writing := c.reading[client+1]; writing {
				c.step(client+1, 1)
			}
		}
		silent := 0
		for i := range c.records {
			if rapid.IntRange(0, 9).Draw(t, "reply") == 0 {
				c.records[i].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
				silent++
			}
		}
		complete := rapid.IntRange(0, 3).Draw(t, "complete") > 0
		if !complete {
			c.account.Complete, c.account.Orders = false, nil
		}
		v := c.judge(loadtest.Cluster)
		switch got := v.Linear.Result; {
		case c.lost == 0 && got == loadtest.Illegal:
			t.Fatalf("nothing was lost: %+v", v.Linear)
		case c.lost == 0 && len(c.records) > 0 && complete && v.AcceptedUnits > 0 && got != loadtest.InOrder:
			t.Fatalf("nothing was lost, and all is known: %+v", v.Linear)
		case c.lost > 0 && (complete || silent == 0) && got != loadtest.Illegal:
			t.Fatalf("%d updates were lost: %+v", c.lost, v.Linear)
		}
	})
}

// A counter with right versions may still serve the past. No other check considers time.
func TestOrderInTime(t *testing.T) {
	at := func(r *loadtest.Record, sent, done int) {
		r.SentAt = noon.Add(time.Duration(sent) * time.Millisecond)
		r.DoneAt = noon.Add(time.Duration(done) * time.Millisecond)
	}
	for _, row := range []struct {
		name string
		do   func(*tape)
		want string
	}{
		{"one after the other", func(t *tape) { at(t.next(1), 0, 1); at(t.next(1), 2, 3) }, loadtest.InOrder},
		{
			"at the same time, the later one first", func(t *tape) { at(t.next(1), 2, 5); at(t.next(1), 0, 4) },
			loadtest.InOrder,
		},
		{
			"sent after the reply, and served before", func(t *tape) { at(t.next(1), 2, 3); at(t.next(1), 0, 1) },
			loadtest.Illegal,
		},
		{
			"told sold out before it was",
			func(t *tape) { at(t.answer(loadtest.SoldOut, 1), 0, 1); at(t.next(3), 2, 3) }, loadtest.Illegal,
		},
		{
			"told sold out while the last was sold",
			func(t *tape) { at(t.answer(loadtest.SoldOut, 1), 0, 3); at(t.next(3), 2, 4) }, loadtest.InOrder,
		},
		{
			"busy whatever there is", func(t *tape) { at(t.answer(loadtest.Busy, 1), 0, 1); at(t.next(3), 2, 3) },
			loadtest.InOrder,
		},
		{"no reply, and the order later", func(t *tape) {
			at(t.next(1), 4, 5)
			at(t.next(1), 0, 1)
			t.records[1].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
		}, loadtest.InOrder},
		{
			"somebody else's order",
			func(t *tape) { t.shared = true; t.next(1); at(t.next(1), 2, 3); t.records = t.records[1:] },
			loadtest.InOrder,
		},
		{
			"segments: reads are of a part",
			func(t *tape) { at(t.from(1, 1, 1, 1), 0, 1); at(t.from(2, 1, 2, 1), 2, 3) }, loadtest.InOrder,
		},
		{"segments: sold out too early", func(t *tape) {
			at(t.from(1, 1, 1, 1), 0, 1)
			at(t.answer(loadtest.SoldOut, 1), 2, 3)
			at(t.from(2, 1, 2, 2), 4, 5)
		}, loadtest.Illegal},
		{"a stale read under the right version", func(t *tape) {
			at(t.next(1), 0, 1)
			at(t.sell(4, 3, 1), 2, 3)
			t.account.After.Quantity = 1
		}, loadtest.Illegal},
		{
			"a write of nobody between two sales, which leaves the quantity", // only porcupine finds it
			func(t *tape) { at(t.next(1), 0, 1); t.version++; at(t.next(1), 2, 3) }, loadtest.Illegal,
		},
		{"nothing done", func(*tape) {}, loadtest.NotAsked},
	} {
		t.Run(row.name, func(t *testing.T) {
			tape := newTape(3)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			if v.Linear.Result != row.want || row.want == loadtest.InOrder && v.Finding != loadtest.Holds ||
				row.want == loadtest.Illegal && v.Finding != loadtest.Broken {
				t.Errorf("%+v, finding %s, %v; want %s", v.Linear, v.Finding, v.Reasons, row.want)
			}
		})
	}
}

// A run that is too large for porcupine is judged all the same, since that needs no search. Only its picture is
// missing.
func TestTooLargeForPorcupine(t *testing.T) {
	tape := newTape(1_000_000)
	for i := range loadtest.MaxLinear + 1 {
		r := tape.next(1)
		r.SentAt = noon.Add(time.Duration(2*i) * time.Millisecond)
		r.DoneAt = noon.Add(time.Duration(2*i+1) * time.Millisecond)
	}
	if v := tape.judge(loadtest.Cluster); v.Linear.Result != loadtest.InOrder || v.Finding != loadtest.Holds {
		t.Errorf("%+v, finding %s", v.Linear, v.Finding)
	}
	r := &loadtest.Result{Records: tape.records, Accounts: []loadtest.Account{tape.account}}
	if err := loadtest.WriteLinear(new(bytes.Buffer), r); err == nil ||
		!strings.Contains(err.Error(), "more than 10000") {
		t.Errorf("picture: %v", err)
	}
	// One reply of the past among ten thousand is found.
	late := &tape.records[5000]
	late.SentAt, late.DoneAt = noon.Add(-2*time.Second), noon.Add(-time.Second)
	if v := tape.judge(loadtest.Cluster); v.Linear.Result != loadtest.Illegal || v.Finding != loadtest.Broken {
		t.Errorf("a reply before its time: %+v, finding %s", v.Linear, v.Finding)
	}
}

// The largest run that porcupine checks, also if everything collides.
func TestPorcupineAtFullSize(t *testing.T) {
	for _, exclusive := range []bool{true, false} {
		c := newClocked(1_000_000, exclusive)
		for i := 0; len(c.records) < loadtest.MaxLinear; i++ {
			c.step(i%30, 1)
		}
		v := c.judge(loadtest.Cluster)
		if exclusive && v.Linear.Result == loadtest.Illegal || !exclusive && v.Linear.Result == loadtest.InOrder {
			t.Errorf("exclusive %v: %+v", exclusive, v.Linear)
		}
	}
}

func TestPictureOfTheSearch(t *testing.T) {
	c := newClocked(10, false)
	for i := range 20 {
		c.step(i%4, 1)
	}
	var page bytes.Buffer
	r := &loadtest.Result{Records: c.records, Accounts: []loadtest.Account{c.account}}
	if err := loadtest.WriteLinear(&page, r); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"<html", "read 10 (version 3), wrote 9", "final stock"} {
		if !strings.Contains(page.String(), word) {
			t.Errorf("no %q in %d bytes", word, page.Len())
		}
	}
}
