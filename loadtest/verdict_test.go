package loadtest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// A tape builds the evidence of a run, sale by sale.
type tape struct {
	records []loadtest.Record
	account loadtest.Account
	version uint64
	shared  bool // others may sell too
}

func newTape(initial int64) *tape {
	before := loadtest.Stock{SKU: "pen", Store: "redis", Quantity: initial, Initial: initial, Version: 3, Epoch: 2}
	return &tape{
		account: loadtest.Account{Store: "redis", Before: before, After: new(before), Complete: true},
		version: 3,
	}
}

// sell writes an order that read the given version and quantity, and the reply to it.
func (t *tape) sell(version uint64, read, quantity int64) *loadtest.Record {
	r := t.answer(loadtest.Accepted, quantity)
	r.OrderID = fmt.Sprintf("o%d", r.Seq)
	r.Receipt = &loadtest.Receipt{Version: version, Read: read, Remaining: read - quantity, Epoch: 2}
	t.account.Orders = append(t.account.Orders, loadtest.Order{
		OrderID: r.OrderID, SKU: "pen", Quantity: quantity, Read: read, Remaining: read - quantity,
		Version: version, Epoch: 2, Instance: r.Instance, RequestID: r.RequestID,
	})
	t.version++
	t.account.After.Quantity = read - quantity
	t.account.After.Sold += quantity
	t.account.After.Version = t.version
	return r
}

// next sells from the current stock.
func (t *tape) next(quantity int64) *loadtest.Record {
	return t.sell(t.version, t.account.After.Quantity, quantity)
}

// merged is next for a sale of one unit in a batch. All batches are made by app-1.
func (t *tape) merged(batch string, place, size int) *loadtest.Record {
	r := t.next(1)
	r.Instance, r.Batch = "app-1", &loadtest.Batch{ID: batch, Place: place, Size: size}
	t.account.Orders[len(t.account.Orders)-1].Instance = "app-1"
	return r
}

// answer adds a reply without an order. The result is good until the next one.
func (t *tape) answer(o loadtest.Outcome, quantity int64) *loadtest.Record {
	seq := len(t.records) + 1
	t.records = append(t.records, loadtest.Record{
		Seq:       seq,
		RequestID: fmt.Sprintf("r%d", seq),
		Store:     "redis",
		SKU:       "pen",
		Quantity:  quantity,
		SentAt:    noon,
		DoneAt:    noon.Add(time.Millisecond),
		Reply:     loadtest.Reply{Outcome: o, Instance: fmt.Sprintf("app-%d", seq%2+1)},
	})
	return &t.records[seq-1]
}

func (t *tape) judge(scope string) loadtest.Verdict {
	return loadtest.Judge(loadtest.Evidence{
		Records:  t.records,
		Accounts: []loadtest.Account{t.account},
		Promise:  loadtest.Promise{Scope: scope, Exclusive: true},
		Shared:   t.shared,
	})
}

// inJSON returns the fields of v by their names in JSON.
func inJSON(t *testing.T, v loadtest.Verdict) (fields map[string]any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// wrongNumbers compares fields of v with want, such as "accepted_units=6 linear.result=ok", and returns a text for each
// that differs. Fields have their names in JSON. A list is compared by its length.
func wrongNumbers(t *testing.T, v loadtest.Verdict, want string) []string {
	t.Helper()
	fields := inJSON(t, v)
	var wrong []string
	for _, pair := range strings.Fields(want) {
		path, value, _ := strings.Cut(pair, "=")
		var got any = fields
		for _, name := range strings.Split(path, ".") {
			object, _ := got.(map[string]any)
			got = object[name]
		}
		if list, is := got.([]any); is {
			got = len(list)
		}
		if fmt.Sprint(got) != value {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %s", path, got, value))
		}
	}
	return wrong
}

func TestCertificateNamesBothOrders(t *testing.T) {
	tape := newTape(10)
	tape.sell(3, 10, 1)
	tape.sell(3, 10, 1)
	tape.next(1)
	v := tape.judge(loadtest.Cluster)
	want := []loadtest.Collision{{
		Store: "redis", SKU: "pen", Epoch: 2, Version: 3,
		Orders: [2]loadtest.Sold{
			{OrderID: "o1", RequestID: "r1", Instance: "app-2", Read: 10, Remaining: 9},
			{OrderID: "o2", RequestID: "r2", Instance: "app-1", Read: 10, Remaining: 9},
		},
	}}
	if !slices.Equal(v.Certificates, want) {
		t.Errorf("certificates %+v, want %+v", v.Certificates, want)
	}
}

func TestJudge(t *testing.T) {
	for _, row := range []struct {
		name    string
		stock   int64
		do      func(*tape)
		want    loadtest.Finding
		kept    bool   // by a strategy that promises exclusion in the cluster
		numbers string // see wrongNumbers
		says    string // a reason
	}{
		{
			"one after the other", 10, func(t *tape) { t.next(1); t.next(2); t.next(3) }, loadtest.Holds, true,
			"accepted_units=6 remaining_units=4 instances=2", "",
		},
		{
			"sold out exactly", 2, func(t *tape) { t.next(2); t.answer(loadtest.SoldOut, 1) }, loadtest.Holds, true,
			"", "",
		},
		{
			"too few left for this one", 3, func(t *tape) { t.next(2); t.answer(loadtest.SoldOut, 2) },
			loadtest.Holds, true, "", "",
		},
		{"nothing to sell", 0, func(t *tape) { t.answer(loadtest.SoldOut, 1) }, loadtest.Holds, true, "", ""},
		{
			"two read the same version", 10, func(t *tape) { t.sell(3, 10, 1); t.sell(3, 10, 1); t.next(1) },
			loadtest.Broken, false,
			"collisions=1 lost_units=1 certificates=1",
			"version 3 was read by order o1 (app-2) and by order o2 (app-1)",
		},
		{
			"five read the same version: ten pairs", 10, func(t *tape) {
				for range 5 {
					t.sell(3, 10, 1)
				}
			}, loadtest.Broken, false, "collisions=10 lost_units=4", "10 pairs",
		},
		{
			"units lost, not requests", 10, func(t *tape) { t.sell(3, 10, 4); t.sell(3, 10, 3) }, loadtest.Broken,
			false, "lost_units=4 accepted_units=7", "4 units lost",
		},
		{
			"oversold", 2, func(t *tape) { t.sell(3, 2, 2); t.sell(3, 2, 2) }, loadtest.Broken, false,
			"oversold_units=2", "oversold by 2 units: 4 sold of 2",
		},
		{
			"a write undone", 10, func(t *tape) { t.next(1); t.account.After.Quantity = 10 }, loadtest.Broken, false,
			"", "1 unit lost: 1 sold",
		},
		{
			"units vanished", 10, func(t *tape) { t.next(1); t.account.After.Quantity = 5 }, loadtest.Broken, false,
			"lost_units=-4", "4 units vanished",
		},
		{
			"one lost, another vanished", 10, func(t *tape) { t.next(1); t.sell(4, 10, 1); t.sell(5, 8, 1) },
			loadtest.Broken, false,
			"lost_units=0 stale_reads=2", "2 orders did not read what the order before wrote; the first is o2",
		},
		{"wrong subtraction", 10, func(t *tape) {
			t.next(1)
			t.records[0].Remaining, t.account.Orders[0].Remaining = 8, 8
		}, loadtest.Broken, false, "", "10 - 1 is not 8"},
		{
			"sold out though there was stock", 10, func(t *tape) { t.next(1); t.answer(loadtest.SoldOut, 1) },
			loadtest.Broken, false, "false_sold_out=1", "request r2 asked for 1, and 9 units left when it was answered",
		},
		{
			"fence goes back", 10, func(t *tape) { t.next(1).Fence = 5; t.next(1).Fence = 4 }, loadtest.Broken, false,
			"fence_drops=1", "order o2 with fence 4",
		},
		{
			"fence repeats", 10, func(t *tape) { t.next(1).Fence = 5; t.next(1); t.next(1).Fence = 5 },
			loadtest.Holds, true, "", "",
		},
		{
			"phantom", 10, func(t *tape) { t.next(1); t.account.Orders = nil; t.account.After.Sold = 0 },
			loadtest.Broken, false, "phantoms=1", "phantoms: 1 accepted",
		},
		{
			"one order told twice", 10, func(t *tape) {
				t.next(1)
				again := t.records[0]
				again.Seq, again.RequestID = 2, "r2"
				t.records = append(t.records, again)
			}, loadtest.Broken, false, "phantoms=1 accepted_units=2", "the order of another reply (request r2)",
		},
		{
			"refused and sold", 10,
			func(t *tape) { t.next(1); t.records[0].Reply = loadtest.Reply{Outcome: loadtest.Busy} },
			loadtest.Broken, false, "denied=1 busy=1", "denied: 1 refused",
		},
		{
			"one request sold twice", 10,
			func(t *tape) { t.next(1); t.next(1); t.records = t.records[:1]; t.account.Orders[1].RequestID = "r1" },
			loadtest.Broken, false, "duplicates=1", "1 order beyond the first of one request",
		},
		{
			"others sell too", 10,
			func(t *tape) { t.shared = true; t.next(1); t.next(1); t.next(1); t.records = t.records[:2] },
			loadtest.Holds, true, "foreign=1 accepted_units=3 accepted=2", "",
		},
		{
			"others sell, though they should not", 10,
			func(t *tape) { t.next(1); t.next(1); t.next(1); t.records = t.records[:2] },
			loadtest.Undecided, false, "foreign=1", "(o3 of request r3)",
		},
		{
			"two units for one", 10, func(t *tape) { t.next(2); t.records[0].Quantity = 1 }, loadtest.Broken, false,
			"misserved=1", "request r1 asked for 1, and order o1 took 2",
		},
		{
			"one unit of three, and no usable reply", 10, func(t *tape) {
				t.next(1)
				t.records[0].Quantity, t.records[0].Reply = 3, loadtest.Reply{Outcome: loadtest.Unknown}
			}, loadtest.Broken, false, "misserved=1", "asked for 3, and order o1 took 1",
		},
		{
			"another read in the reply", 10, func(t *tape) { t.next(1); t.records[0].Read = 77 }, loadtest.Broken,
			false, "misquoted=1", "the reply to r1 says read 77, its order o1 10",
		},
		{
			"another version in the reply", 10, func(t *tape) { t.next(1); t.records[0].Version = 77 },
			loadtest.Broken, false, "misquoted=1", "says version 77",
		},
		{
			"another fence in the reply", 10, func(t *tape) { t.next(1).Fence = 7; t.account.Orders[0].Fence = 8 },
			loadtest.Broken, false, "misquoted=1", "says fence 7",
		},
		{
			"the fence of a holder whose write carried none", 10,
			func(t *tape) { t.next(1).Fence = 7 }, loadtest.Holds, true, "", "",
		},
		{"two orders with each other's request", 10, func(t *tape) {
			t.next(1)
			t.next(1)
			t.account.Orders[0].RequestID, t.account.Orders[1].RequestID = "r2", "r1"
		}, loadtest.Broken, false, "swapped=2", "order o1 is of request r1 by its reply, and carries the id of r2"},
		{"batches, and a member that was refused", 10, func(t *tape) {
			t.merged("a", 1, 3)
			t.merged("a", 3, 3)
			t.merged("b", 1, 1)
		}, loadtest.Holds, true, "misplaced=0", ""},
		{"a batch that was not made in its order", 10, func(t *tape) {
			t.merged("a", 2, 2)
			t.merged("a", 1, 2)
		}, loadtest.Broken, false, "misplaced=1", "request r1 stands behind r2 in batch a, and read version 3"},
		{"a batch on two instances", 10, func(t *tape) {
			t.merged("a", 1, 2)
			t.merged("a", 2, 2).Instance = "app-9"
		}, loadtest.Broken, false, "misplaced=1", "batch a is of app-9 by request r2, and of app-1 by r1"},
		{"a batch of two sizes, and a place beyond it", 10, func(t *tape) {
			t.merged("a", 1, 3)
			t.merged("a", 2, 2)
			t.merged("b", 2, 1)
		}, loadtest.Broken, false, "misplaced=2", "batch a has 2 sales by request r2, and 3 by r1"},
		{
			"request ids replaced on the way", 10, func(t *tape) { t.next(1); t.account.Orders[0].RequestID = "x" },
			loadtest.Holds, true, "limits=1", "",
		},
		{
			"told sold out, and sold afterwards", 3, func(t *tape) {
				early := t.answer(loadtest.SoldOut, 1)
				early.DoneAt = noon.Add(time.Millisecond)
				for range 3 {
					r := t.next(1)
					r.SentAt, r.DoneAt = noon.Add(2*time.Millisecond), noon.Add(3*time.Millisecond)
				}
			}, loadtest.Broken, false, "false_sold_out=1 linear.result=illegal",
			"request r1 asked for 1, and 3 units left when it was answered",
		},
		{
			"unknown and sold", 10,
			func(t *tape) { t.next(1); t.next(1); t.records[1].Reply = loadtest.Reply{Outcome: loadtest.Unknown} },
			loadtest.Holds, true, "recovered=1 accepted=2 unknown=0", "",
		},
		{"unknown and sold, by order id", 10, func(t *tape) {
			t.next(1)
			t.records[0].Reply = loadtest.Reply{Outcome: loadtest.Unknown, OrderID: "o1"}
			t.account.Orders[0].RequestID = "replaced by a proxy"
		}, loadtest.Holds, true, "recovered=1 foreign=0", ""},
		{
			"unknown and not sold", 10, func(t *tape) { t.next(1); t.answer(loadtest.Unknown, 1) }, loadtest.Holds,
			true, "recovered=0 unknown=1", "",
		},
		{
			"orders missing", 10, func(t *tape) {
				t.next(1)
				t.next(1)
				t.account.Orders, t.account.Complete, t.account.Gap = nil, false, words.Same("it went down")
			}, loadtest.Undecided, false, "phantoms=0", "it went down",
		},
		{
			"orders missing, and yet a proof", 10, func(t *tape) {
				t.sell(3, 10, 1)
				t.sell(3, 10, 1)
				t.account.Orders, t.account.Complete, t.account.After = nil, false, nil
			}, loadtest.Broken, false, "collisions=1 remaining_known=false", "read the same version",
		},
		{"orders missing, unknown may explain", 10, func(t *tape) {
			t.next(1)
			t.next(1)
			t.records[1].Reply = loadtest.Reply{Outcome: loadtest.Unknown}
			t.account.Orders, t.account.Complete = nil, false
		}, loadtest.Undecided, false, "", "outcome unknown for 1 unit"},
		{
			"final stock missing", 10, func(t *tape) {
				t.next(1)
				t.account.After, t.account.Complete = nil, false
			}, loadtest.Undecided, false, "remaining_known=false", "final stock could not be read",
		},
		{
			"set again meanwhile", 10,
			func(t *tape) { t.next(1); t.account.After.Epoch = 3; t.account.Orders = nil }, loadtest.Undecided, false,
			"remaining_known=false phantoms=0", "set again",
		},
		{
			"set again before the last", 10, func(t *tape) {
				t.next(1)
				t.next(1).Epoch = 3
				t.account.After.Epoch, t.account.Orders = 3, t.account.Orders[1:]
				t.account.Orders[0].Epoch = 3
			}, loadtest.Undecided, false, "remaining_known=false phantoms=0", "set again during the run",
		},
		{
			"store miscounts", 10, func(t *tape) { t.next(1); t.account.After.Sold = 7 }, loadtest.Undecided, false,
			"", "counts 7 units sold, its orders hold 1",
		},
		{
			"all failed", 10, func(t *tape) { t.answer(loadtest.Failed, 1) }, loadtest.Undecided, false, "",
			"nothing was sold",
		},
		{"no requests", 10, func(*tape) {}, loadtest.Undecided, false, "", "nothing was sold"},
		{
			"SKU of no account", 10, func(t *tape) { t.next(1).SKU = "ink" }, loadtest.Undecided, false, "",
			"ink: the final stock could not be read",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			tape := newTape(row.stock)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			if v.Finding != row.want || v.Kept != row.kept {
				t.Errorf("finding %s, kept %v; want %s, %v; reasons %v", v.Finding, v.Kept, row.want, row.kept,
					v.Reasons)
			}
			for _, wrong := range wrongNumbers(t, v, row.numbers) {
				t.Error(wrong)
			}
			says := func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, row.says) }
			if row.says != "" && !slices.ContainsFunc(v.Reasons, says) {
				t.Errorf("no reason says %q: %v", row.says, v.Reasons)
			}
			if row.says == "" && len(v.Reasons) > 0 {
				t.Errorf("reasons %v, want none", v.Reasons)
			}
			if v.Accepted+v.Busy+v.SoldOut+v.Failed+v.Unknown != v.Sent {
				t.Errorf("outcomes do not add up to sent: %+v", v)
			}
		})
	}
}

func TestPromises(t *testing.T) {
	right := func(instances int) *tape {
		tape := newTape(10)
		for range instances {
			tape.next(1)
		}
		return tape
	}
	lossy := func(instances int) *tape {
		tape := newTape(10)
		for range 2 {
			tape.sell(3, 10, 1)
		}
		for i := range tape.records {
			tape.account.Orders[i].Instance = fmt.Sprintf("app-%d", i%instances)
		}
		return tape
	}
	// patient makes each request wait for the reply to the previous one.
	patient := func(t *tape) *tape {
		for i := range t.records {
			t.records[i].SentAt = noon.Add(time.Duration(i) * time.Second)
			t.records[i].DoneAt = t.records[i].SentAt.Add(time.Second)
		}
		return t
	}
	lies := newTape(10)
	lies.next(1)
	lies.account.Orders, lies.account.After.Sold = nil, 0
	idle := newTape(10)
	idle.answer(loadtest.Failed, 1)
	for _, row := range []struct {
		scope string
		tape  *tape
		kept  bool
		luck  bool
		says  string
	}{
		{loadtest.Nowhere, lossy(2), true, false, "As expected, since no exclusion is promised: 1 unit lost"},
		{loadtest.Nowhere, right(2), true, true, "The race was not seen"},
		{loadtest.Nowhere, patient(right(2)), true, false, "Nothing could race"},
		{loadtest.Process, patient(right(2)), true, false, "Nothing could race"},
		{loadtest.Nowhere, patient(lossy(2)), true, false, "As expected"},
		{loadtest.Nowhere, lies, false, false, "contradicts itself"},
		{loadtest.Nowhere, idle, false, false, "cannot be told"},
		{loadtest.Process, right(1), true, false, "Kept: exclusion is promised within one instance"},
		{loadtest.Process, lossy(1), false, false, "NOT KEPT: exclusion is promised within one instance"},
		{loadtest.Process, lossy(2), true, false, "and 2 sold: 1 unit lost"},
		{loadtest.Process, right(2), true, true, "luck"},
		{loadtest.Process, idle, false, false, "cannot be told"},
		{loadtest.Cluster, right(2), true, false, "Kept: exclusion is promised in the whole cluster"},
		{loadtest.Cluster, lossy(2), false, false, "NOT KEPT"},
		{loadtest.Cluster, idle, false, false, "cannot be told"},
		{"galaxy", right(1), false, false, "not known here"},
	} {
		v := row.tape.judge(row.scope)
		if v.Kept != row.kept || v.Luck != row.luck || !strings.Contains(v.Sentence.EN, row.says) {
			t.Errorf("%s: kept %v, luck %v, %q; want %v, %v, %q", row.scope, v.Kept, v.Luck, v.Sentence, row.kept,
				row.luck, row.says)
		}
	}
}

func TestOverlapsAreCountedAndProveNothing(t *testing.T) {
	tape := newTape(10)
	for _, span := range [][2]int{{0, 10}, {10, 20}, {15, 30}, {16, 17}, {40, 50}} {
		r := tape.next(1)
		r.AcquiredAt = noon.Add(time.Duration(span[0]) * time.Millisecond)
		r.ReleasedAt = noon.Add(time.Duration(span[1]) * time.Millisecond)
	}
	v := tape.judge(loadtest.Cluster)
	if v.Overlaps != 2 || v.LongestOverlapMS != 5 || v.Finding != loadtest.Holds {
		t.Errorf("overlaps %d, longest %v ms, finding %s; want 2, 5, holds", v.Overlaps, v.LongestOverlapMS, v.Finding)
	}
}
