package loadtest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// The smallest possible fault is one unit or one request. The judge sees it in each sum and each count, and accuses
// nothing that only looks like a fault.
func TestExactly(t *testing.T) {
	unlisted := func(t *tape) {
		t.account.Before.Mapped, t.account.Before.Unlisted = true, true
		t.account.Orders, t.account.Complete = nil, false
	}
	unknown := func(t *tape, quantity int64) { t.answer(loadtest.Unknown, quantity) }
	for _, row := range []struct {
		name    string
		stock   int64
		do      func(*tape)
		want    loadtest.Finding
		says    string // "": there is no reason
		not     string // what no reason may say
		numbers string // see wrongNumbers
	}{
		{
			"oversold by one", 2, func(t *tape) { t.next(1); t.next(1); t.next(1) }, loadtest.Broken,
			"oversold by 1 unit: 3 sold of 2", "", "",
		},
		{"sold to the last", 2, func(t *tape) { t.next(1); t.next(1) }, loadtest.Holds, "", "", ""},
		{
			"one lost", 9, func(t *tape) { t.next(1); t.account.After.Quantity++ }, loadtest.Broken,
			"1 unit lost: 1 sold", "", "",
		},
		{
			"one vanished", 9, func(t *tape) { t.next(1); t.account.After.Quantity-- }, loadtest.Broken,
			"1 unit vanished", "", "",
		},
		{"one lost, and orders missing", 9, func(t *tape) {
			t.next(1)
			t.account.After.Quantity++
			t.account.Orders, t.account.Complete = nil, false
		}, loadtest.Broken, "1 unit lost: 1 sold at least", "", ""},
		{
			"one lost, by replies", 9, func(t *tape) { t.next(1); t.account.After.Quantity++; unlisted(t) },
			loadtest.Broken, "1 unit lost: 1 were accepted", "", "",
		},
		{
			"one vanished, by replies", 9, func(t *tape) { t.next(1); t.account.After.Quantity--; unlisted(t) },
			loadtest.Broken, "1 unit vanished", "", "",
		},
		{"one gone, and one lost reply explains it", 9, func(t *tape) {
			t.next(1)
			unknown(t, 1)
			t.account.After.Quantity--
			unlisted(t)
		}, loadtest.Undecided, "outcome unknown for 1 unit, and", "vanished", ""},
		{"three gone, and one lost reply of three explains it", 9, func(t *tape) {
			t.next(1)
			unknown(t, 3)
			t.account.After.Quantity -= 3
			unlisted(t)
		}, loadtest.Undecided, "outcome unknown for 3 units", "vanished", ""},
		{"two gone, and one lost reply explains one", 9, func(t *tape) {
			t.next(1)
			unknown(t, 1)
			t.account.After.Quantity -= 2
			unlisted(t)
		}, loadtest.Broken, "1 unit vanished: the stock went down by 3, but 2 were accepted at most", "", ""},
		{"a target that does not count what it sold", 9, func(t *tape) {
			t.next(1)
			t.account.Before.Mapped, t.account.After.Sold = true, 0
		}, loadtest.Holds, "", "", ""},
		{"one reply of another epoch", 9, func(t *tape) {
			t.next(1)
			t.next(1).Epoch = 9
		}, loadtest.Broken, "set again during the run", "", "remaining_known=false"},
		{"an order of another epoch", 9, func(t *tape) {
			t.next(1)
			old := t.account.Orders[0]
			old.OrderID, old.RequestID, old.Epoch = "old", "old", 1
			t.account.Orders = append(t.account.Orders, old)
		}, loadtest.Holds, "", "", "foreign=0 accepted_units=1"},
		{"an order on two pages", 9, func(t *tape) {
			t.next(1)
			t.account.Orders = append(t.account.Orders, t.account.Orders[0])
		}, loadtest.Holds, "", "", "duplicates=0 foreign=0 accepted_units=1"},
		{"no request id on either side is no match", 9, func(t *tape) {
			t.shared = true
			t.next(1)
			t.account.Orders[0].RequestID = ""
			t.records[0].RequestID, t.records[0].Reply = "", loadtest.Reply{Outcome: loadtest.Unknown}
		}, loadtest.Holds, "", "", "foreign=1 recovered=0 duplicates=0 unknown=1"},
		{"a request sent again, whose second reply was lost", 9, func(t *tape) {
			t.next(1)
			unknown(t, 1)
			t.records[1].RequestID = "r1"
		}, loadtest.Holds, "", "", "recovered=0 unknown=1 accepted_units=1"},
		{
			"a fence that the reply does not tell", 9, func(t *tape) { t.next(1); t.account.Orders[0].Fence = 8 },
			loadtest.Holds, "", "", "",
		},
		{
			"an order of three told twice", 9, func(t *tape) {
				t.next(3)
				again := t.records[0]
				again.Seq, again.RequestID = 2, "r2"
				t.records = append(t.records, again)
			}, loadtest.Broken, "3 units lost: 6 sold", "", "accepted_units=6 phantoms=1",
		},
		{"four strangers, three of them by name", 9, func(t *tape) {
			for range 5 {
				t.next(1)
			}
			t.records = t.records[:1]
		}, loadtest.Undecided, "o2 of request r2, o3 of request r3, o4 of request r4)", "o5", "foreign=4"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tape := newTape(row.stock)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			says := func(text string) bool {
				return slices.ContainsFunc(v.Reasons,
					func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, text) })
			}
			if v.Finding != row.want || row.says == "" && len(v.Reasons) > 0 || !says(row.says) && row.says != "" ||
				row.not != "" && says(row.not) {
				t.Errorf("finding %s, want %s; reasons %v, want %q and not %q", v.Finding, row.want, v.Reasons,
					row.says, row.not)
			}
			for _, wrong := range wrongNumbers(t, v, row.numbers) {
				t.Error(wrong)
			}
		})
	}
}

// The findings about several SKUs are added, and each is reported for its own SKU only.
func TestExactlyOfSeveralSKUs(t *testing.T) {
	named := func(sku string, do func(*tape)) *tape {
		tape := newTape(2)
		do(tape)
		tape.account.Before.SKU, tape.account.After.SKU = sku, sku
		for i := range tape.records {
			tape.records[i].SKU, tape.records[i].RequestID = sku, sku+tape.records[i].RequestID
		}
		for i := range tape.account.Orders {
			o := &tape.account.Orders[i]
			o.SKU, o.RequestID = sku, sku+o.RequestID
		}
		return tape
	}
	judge := func(tapes ...*tape) loadtest.Verdict {
		e := loadtest.Evidence{Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true}}
		for _, t := range tapes {
			e.Records, e.Accounts = append(e.Records, t.records...), append(e.Accounts, t.account)
		}
		return loadtest.Judge(e)
	}
	over := func(t *tape) { t.next(1); t.next(2); t.account.After.Quantity = 1; t.answer(loadtest.SoldOut, 1) }
	v := judge(named("ink", over), named("pen", over), named("pad", func(t *tape) { t.next(1) }))
	if v.InitialUnits != 6 || v.OversoldUnits != 2 || v.RemainingUnits != 3 || v.LostUnits != 4 ||
		v.FalseSoldOut != 0 ||
		v.AcceptedUnits != 7 {
		t.Errorf("the sums: %+v", v)
	}
	v = judge(named("ink", func(t *tape) { t.answer(loadtest.SoldOut, 1) }),
		named("pen", func(t *tape) { t.answer(loadtest.SoldOut, 1) }))
	if v.FalseSoldOut != 2 {
		t.Errorf("false refusals: %+v", v)
	}
	lie := named("ink", func(t *tape) {
		t.next(1)
		t.next(1)
		t.account.Orders[1].OrderID, t.account.Orders[1].RequestID = "x", "rx" // a phantom and a foreign order
		t.records[0].Reply = loadtest.Reply{Outcome: loadtest.Busy}
	})
	v = judge(lie, named("pen", func(t *tape) { t.next(1) }))
	for _, r := range v.Reasons {
		if strings.HasPrefix(r.Text.EN, "pen") {
			t.Errorf("said of the wrong SKU: %s", r.Text)
		}
	}
	if v.Phantoms != 1 || v.Denied != 1 || v.Foreign != 1 || v.Finding != loadtest.Broken {
		t.Errorf("%+v", v)
	}
}

// The text about false refusals names the earliest. The text about a sale at the wrong time names the request that was
// sent too late.
func TestTheExampleIsTheOneToLookAt(t *testing.T) {
	at := func(r *loadtest.Record, sent, done int) {
		r.SentAt = noon.Add(time.Duration(sent) * time.Millisecond)
		r.DoneAt = noon.Add(time.Duration(done) * time.Millisecond)
	}
	tape := newTape(9)
	at(tape.next(1), 0, 1)
	at(tape.answer(loadtest.SoldOut, 1), 2, 3)
	at(tape.answer(loadtest.SoldOut, 2), 4, 5)
	v := tape.judge(loadtest.Cluster)
	want := "2 requests answered sold out although there was enough: request r2 asked for 1, and 8 units left"
	if v.FalseSoldOut != 2 || !strings.Contains(v.Linear.Why.EN, want) {
		t.Errorf("%d, %+v", v.FalseSoldOut, v.Linear)
	}
	tape = newTape(9)
	at(tape.next(1), 10, 11) // the first by its version, and the last sent
	at(tape.next(1), 5, 12)
	at(tape.next(1), 0, 1)
	want = "request r1 was sent after request r3 had been answered"
	if v = tape.judge(loadtest.Cluster); !strings.Contains(v.Linear.Why.EN, want) {
		t.Errorf("%+v", v.Linear)
	}
	// The times of one segment do not matter for another.
	tape = newTape(9)
	at(tape.from(1, 1, 5, 1), 10, 11)
	at(tape.from(2, 1, 4, 1), 0, 1)
	tape.account.After.Quantity = 7
	if v = tape.judge(loadtest.Cluster); v.Linear.Result != loadtest.InOrder {
		t.Errorf("%+v %v", v.Linear, v.Reasons)
	}
}

// Single findings, by their counts.
func TestTheNumbersOfFindings(t *testing.T) {
	tape := newTape(9)
	for _, fence := range []uint64{5, 9, 7, 8} {
		tape.next(1).Fence = fence
	}
	if v := tape.judge(loadtest.Cluster); v.FenceDrops != 2 {
		t.Errorf("%d fences are smaller than an earlier one, want 2", v.FenceDrops)
	}
	tape = newTape(10)
	tape.sell(3, 9, 1) // the first sale, which did not read the initial stock
	if v := tape.judge(loadtest.Cluster); v.StaleReads != 1 || v.Finding != loadtest.Broken {
		t.Errorf("%+v", v)
	}
	tape = newTape(10)
	tape.next(1)
	tape.records[0].Remaining, tape.account.Orders[0].Remaining = 10, 10
	if v := tape.judge(loadtest.Cluster); len(v.Reasons) == 0 ||
		!strings.Contains(v.Reasons[0].Text.EN, "10 - 1 is not 10") {
		t.Errorf("%v", v.Reasons)
	}
	tape = newTape(10)
	for _, span := range [][2]int{{0, 10}, {1, 2}, {5, 6}} {
		r := tape.next(1)
		r.AcquiredAt = noon.Add(time.Duration(span[0]) * time.Millisecond)
		r.ReleasedAt = noon.Add(time.Duration(span[1]) * time.Millisecond)
	}
	if v := tape.judge(loadtest.Cluster); v.Overlaps != 2 {
		t.Errorf("%d overlaps, want 2: a short hold does not end the long one around it", v.Overlaps)
	}
	for i := range tape.records {
		tape.records[i].Batch = &loadtest.Batch{ID: "b", Place: i + 1, Size: 3}
	}
	if v := tape.judge(loadtest.Cluster); v.Overlaps != 0 {
		t.Errorf("%d overlaps of the sales of one batch", v.Overlaps)
	}
	for i := range tape.records {
		tape.records[i].Batch = nil
	}
	e := loadtest.Evidence{
		Records:  tape.records,
		Accounts: []loadtest.Account{tape.account},
		Promise:  loadtest.Promise{Scope: loadtest.Nowhere},
	}
	if v := loadtest.Judge(e); v.Overlaps != 0 {
		t.Errorf("%d overlaps of a strategy that excludes nobody", v.Overlaps)
	}
	e.Missing = 1
	if v := loadtest.Judge(e); v.Finding != loadtest.Undecided || v.Missing != 1 {
		t.Errorf("one record missing: %s", v.Finding)
	}
}

// What an order in time shows is told in its own words, and no fault is a reason twice.
func TestEachFaultIsToldOnce(t *testing.T) {
	for name, row := range map[string]struct {
		do      func(*tape)
		why     string // of Linear
		reasons []string
		numbers string // see wrongNumbers
	}{
		"oversold": {
			func(t *tape) { t.next(6); t.next(6); t.account.After.Quantity = 0 }, "more was sold than there was",
			[]string{"oversold by 2 units", "2 units lost"},
			"",
		},
		"two that read the same": {
			func(t *tape) { t.sell(3, 10, 1); t.sell(3, 10, 1) }, "two orders read the same version",
			[]string{"1 pair of orders", "1 unit lost"},
			"stale_reads=0 collisions=1",
		},
		"a stale read": {
			func(t *tape) { t.next(1); t.sell(4, 10, 1) }, "an order did not read what the order before it wrote",
			[]string{"1 order did not read", "1 unit lost"},
			"stale_reads=1 collisions=0",
		},
		"two that read the same, and a stale read later": {
			func(t *tape) {
				t.sell(3, 10, 1)
				t.sell(3, 10, 1)
				t.sell(5, 9, 1)
				t.sell(6, 9, 1)
			}, "two orders read the same version",
			[]string{"1 pair of orders", "2 units lost"},
			"stale_reads=1 collisions=1",
		},
		"two that read the same, and not what was written": {
			func(t *tape) { t.next(1); t.sell(4, 10, 1); t.sell(4, 10, 1); t.account.After.Quantity = 7 },
			"two orders read the same version",
			[]string{"1 pair of orders"},
			"stale_reads=0 collisions=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			tape := newTape(10)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			if v.Linear.Result != loadtest.Illegal || !strings.HasPrefix(v.Linear.Why.EN, row.why) {
				t.Errorf("%+v, want %q", v.Linear, row.why)
			}
			if !slices.EqualFunc(v.Reasons, row.reasons,
				func(r loadtest.Reason, want string) bool { return strings.HasPrefix(r.Text.EN, want) }) {
				t.Errorf("reasons %q, want %q", v.Reasons, row.reasons)
			}
			for _, wrong := range wrongNumbers(t, v, row.numbers) {
				t.Error(wrong)
			}
		})
	}
}

// What follows is no fault.
func TestNoFault(t *testing.T) {
	for name, do := range map[string]func(*tape){
		"the next segment goes on where the last one ends": func(t *tape) {
			t.from(1, 3, 5, 1)
			t.from(2, 4, 7, 1)
		},
		"the first sale does not tell what it read": func(t *tape) {
			t.account.Before.Mapped = true
			first := t.next(1)
			first.Receipt = &loadtest.Receipt{Epoch: 2, Blind: true}
			o := &t.account.Orders[0]
			o.Read, o.Remaining, o.Version, o.Blind = 0, 0, 0, true
			t.next(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			tape := newTape(10)
			do(tape)
			if v := tape.judge(loadtest.Cluster); v.Finding != loadtest.Holds {
				t.Errorf("%s: %q", v.Finding, v.Reasons)
			}
		})
	}
}

// Of two orders of one request the first is the request's own.
func TestTheFirstOrderOfARequestIsItsOwn(t *testing.T) {
	tape := newTape(10)
	tape.next(1)
	tape.next(2)
	tape.records = tape.records[:1]
	tape.records[0].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
	tape.account.Orders[1].RequestID = "r1"
	for _, wrong := range wrongNumbers(t, tape.judge(loadtest.Cluster), "recovered=1 duplicates=1 misserved=0") {
		t.Error(wrong)
	}
}

// Ten certificates are kept, and one more for each SKU that has none among them.
func TestCertificatesAreFew(t *testing.T) {
	collide := func(sku string, pairs int) *tape {
		tape := newTape(100)
		tape.account.Before.SKU, tape.account.After.SKU = sku, sku
		for i := range uint64(pairs) {
			tape.sell(3+2*i, 100-int64(i), 1)
			tape.sell(3+2*i, 100-int64(i), 1)
		}
		for i := range tape.records {
			tape.records[i].SKU, tape.records[i].RequestID = sku, sku+tape.records[i].RequestID
			o := &tape.account.Orders[i]
			o.SKU, o.RequestID, o.OrderID = sku, tape.records[i].RequestID, sku+o.OrderID
			tape.records[i].OrderID = o.OrderID
		}
		return tape
	}
	many, one := collide("ink", 12), collide("pen", 1)
	v := loadtest.Judge(loadtest.Evidence{
		Records:  append(many.records, one.records...),
		Accounts: []loadtest.Account{many.account, one.account},
		Promise:  loadtest.Promise{Scope: loadtest.Cluster},
	})
	if v.Collisions != 13 || len(v.Certificates) != 11 || v.Certificates[10].SKU != "pen" {
		t.Errorf("%d collisions, %d certificates: %+v", v.Collisions, len(v.Certificates), v.Certificates)
	}
}

// Records that tell no times do not show that nothing could race.
func TestWithoutTimesRequestsMayHaveRaced(t *testing.T) {
	tape := newTape(10)
	for range 3 {
		r := tape.next(1)
		r.SentAt, r.DoneAt = time.Time{}, time.Time{}
	}
	if v := tape.judge(loadtest.Nowhere); v.OneAtATime || !v.Luck {
		t.Errorf("one at a time: %v, luck: %v (%s)", v.OneAtATime, v.Luck, v.Sentence)
	}
}
