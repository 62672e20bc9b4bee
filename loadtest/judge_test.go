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

// from sells from a segment that has the given version and quantity.
func (t *tape) from(segment int, version uint64, read, quantity int64) *loadtest.Record {
	left := t.account.After.Quantity - quantity
	r := t.sell(version, read, quantity)
	r.Segment = segment
	t.account.Orders[len(t.account.Orders)-1].Segment = segment
	t.account.After.Quantity = left // of all segments
	return r
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
		Seq: seq, RequestID: fmt.Sprintf("r%d", seq), Store: "redis", SKU: "pen", Quantity: quantity,
		SentAt: noon, DoneAt: noon.Add(time.Millisecond),
		Reply: loadtest.Reply{Outcome: o, Instance: fmt.Sprintf("app-%d", seq%2+1)},
	})
	return &t.records[seq-1]
}

// lost replaces the reply to the request at i: none came.
func (t *tape) lost(i int) { t.records[i].Reply = loadtest.Reply{Outcome: loadtest.Unknown} }

// unread makes the orders unreadable.
func (t *tape) unread() { t.account.Orders, t.account.Complete = nil, false }

// of gives the tape another SKU, and the requests and orders other ids.
func (t *tape) of(sku string) *tape {
	t.account.Before.SKU, t.account.After.SKU = sku, sku
	for i := range t.records {
		r := &t.records[i]
		r.SKU, r.RequestID, r.OrderID = sku, sku+r.RequestID, sku+r.OrderID
	}
	for i := range t.account.Orders {
		o := &t.account.Orders[i]
		o.SKU, o.RequestID, o.OrderID = sku, sku+o.RequestID, sku+o.OrderID
	}
	return t
}

func (t *tape) judge(scope string) loadtest.Verdict {
	return loadtest.Judge(loadtest.Evidence{
		Records: t.records, Accounts: []loadtest.Account{t.account},
		Promise: loadtest.Promise{Scope: scope, Exclusive: true}, Shared: t.shared,
	})
}

func judgeAll(tapes ...*tape) loadtest.Verdict {
	e := loadtest.Evidence{Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true}}
	for _, t := range tapes {
		e.Records, e.Accounts = append(e.Records, t.records...), append(e.Accounts, t.account)
	}
	return loadtest.Judge(e)
}

// at sets the times of a record, in milliseconds after noon.
func at(r *loadtest.Record, sent, done int) {
	r.SentAt = noon.Add(time.Duration(sent) * time.Millisecond)
	r.DoneAt = noon.Add(time.Duration(done) * time.Millisecond)
}

// wrongNumbers compares fields of v with want, such as "accepted_units=6 linear.result=ok", and returns a text for each
// that differs. Fields have their names in JSON. A list is compared by its length. A field without a value must not be
// zero.
func wrongNumbers(t *testing.T, v loadtest.Verdict, want string) (wrong []string) {
	t.Helper()
	text, err := json.Marshal(v)
	var fields map[string]any
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range strings.Fields(want) {
		path, value, exact := strings.Cut(pair, "=")
		var got any = fields
		for _, name := range strings.Split(path, ".") {
			object, _ := got.(map[string]any)
			got = object[name]
		}
		if list, is := got.([]any); is {
			got = len(list)
		}
		if said := fmt.Sprint(got); exact && said != value || !exact && (said == "0" || said == "<nil>") {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %s", path, got, pair))
		}
	}
	return wrong
}

// The smallest possible fault is one unit or one request. The judge sees it in each sum and each count, and accuses
// nothing that only looks like a fault.
func TestJudge(t *testing.T) {
	const soldOut, failed, unknown = loadtest.SoldOut, loadtest.Failed, loadtest.Unknown
	for _, row := range []struct {
		name    string
		stock   int64
		do      func(*tape)
		want    loadtest.Finding
		numbers string // see wrongNumbers
	}{
		{"nothing to sell", 0, func(t *tape) { t.answer(soldOut, 1) }, holds, ""},
		{"all failed", 10, func(t *tape) { t.answer(failed, 1) }, undecided, ""},

		// Sums.
		{
			"one lost, and orders missing", 9, func(t *tape) { t.next(1); t.account.After.Quantity++; t.unread() },
			broken,
			"lost_units=1 phantoms=0",
		},

		// Versions. No fault is a reason twice.
		{
			"a stale read", 10, func(t *tape) { t.next(1); t.sell(4, 10, 1) }, broken,
			"stale_reads=1 collisions=0 reasons=2 linear.result=illegal",
		},
		{"two that read the same, and a stale read later", 10, func(t *tape) {
			t.sell(3, 10, 1)
			t.sell(3, 10, 1)
			t.sell(5, 9, 1)
			t.sell(6, 9, 1)
		}, broken, "stale_reads=1 collisions=1 reasons=2"},
		{"the first did not read the initial stock", 10, func(t *tape) { t.sell(3, 9, 1) }, broken, "stale_reads=1"},
		{"the first sale does not tell what it read", 10, func(t *tape) {
			t.account.Before.Mapped = true
			t.next(1).Receipt = &loadtest.Receipt{Epoch: 2, Blind: true}
			o := &t.account.Orders[0]
			o.Read, o.Remaining, o.Version, o.Blind = 0, 0, 0, true
			t.next(1)
		}, holds, "limits=2"},

		// Fences and batches.
		{"a fence repeats", 10, func(t *tape) { t.next(1).Fence = 5; t.next(1); t.next(1).Fence = 5 }, holds, ""},
		{
			"a fence that the reply does not tell", 9, func(t *tape) { t.next(1); t.account.Orders[0].Fence = 8 },
			holds, "",
		},
		{"batches, and a member that was refused", 10, func(t *tape) {
			t.merged("a", 1, 3)
			t.merged("a", 3, 3)
			t.merged("b", 1, 1)
		}, holds, "misplaced=0"},
		{
			"a batch that was not made in its order", 10, func(t *tape) { t.merged("a", 2, 2); t.merged("a", 1, 2) },
			broken,
			"misplaced=1",
		},
		{"a batch on two instances", 10, func(t *tape) {
			t.merged("a", 1, 2)
			t.merged("a", 2, 2).Instance = "app-9"
		}, broken, "misplaced=1"},
		{"a batch of two sizes, and a place beyond it", 10, func(t *tape) {
			t.merged("a", 1, 3)
			t.merged("a", 2, 2)
			t.merged("b", 2, 1)
		}, broken, "misplaced=2"},

		// Segments: versions, reads and fences of one do not matter for another.
		{"each segment has its versions and fences", 20, func(t *tape) {
			t.from(1, 1, 5, 1).Fence = 9
			t.from(2, 1, 5, 1).Fence = 3
			t.from(2, 2, 4, 1).Fence = 4
			t.from(1, 2, 4, 1).Fence = 10
		}, holds, ""},
		{"units moved in between", 20, func(t *tape) {
			t.from(1, 1, 5, 5)
			t.from(1, 3, 8, 1)
			t.from(1, 4, 7, 1)
		}, holds, ""},

		// Replies and orders.
		{"one order of three told twice", 9, func(t *tape) {
			t.next(3)
			again := t.records[0]
			again.Seq, again.RequestID = 2, "r2"
			t.records = append(t.records, again)
		}, broken, "accepted_units=6 phantoms=1"},
		{
			"another fence in the reply", 10, func(t *tape) { t.next(1).Fence = 7; t.account.Orders[0].Fence = 8 },
			broken,
			"misquoted=1",
		},
		{
			"request ids replaced on the way", 10, func(t *tape) { t.next(1); t.account.Orders[0].RequestID = "x" },
			holds,
			"limits=1",
		},
		{"SKU of no account", 10, func(t *tape) { t.next(1).SKU = "ink" }, undecided, ""},

		// Outcomes that are not known.
		{"unknown and sold, by order id", 10, func(t *tape) {
			t.next(1)
			t.lost(0)
			t.records[0].OrderID, t.account.Orders[0].RequestID = "o1", "replaced by a proxy"
		}, holds, "recovered=1 foreign=0"},
		{"no request id on either side is no match", 9, func(t *tape) {
			t.shared = true
			t.next(1)
			t.lost(0)
			t.account.Orders[0].RequestID, t.records[0].RequestID = "", ""
		}, holds, "foreign=1 recovered=0 duplicates=0 unknown=1"},
		{"a request sent again, whose second reply was lost", 9, func(t *tape) {
			t.next(1)
			t.answer(unknown, 1).RequestID = "r1"
		}, holds, "recovered=0 unknown=1 accepted_units=1"},
		{"orders missing", 10, func(t *tape) { t.next(1); t.next(1); t.unread() }, undecided, "phantoms=0 reasons=1"},
		{
			"orders missing, unknown may explain", 10, func(t *tape) { t.next(1); t.next(1); t.lost(1); t.unread() },
			undecided,
			"reasons=2",
		},
		{
			"final stock missing", 10, func(t *tape) { t.next(1); t.account.After, t.account.Complete = nil, false },
			undecided,
			"remaining_known=false",
		},

		// The order in time. No other check considers it.
		{
			"sent after the reply, and served before", 3, func(t *tape) { at(t.next(1), 2, 3); at(t.next(1), 0, 1) },
			broken,
			"linear.result=illegal reasons=1",
		},
		{"the times of one segment do not matter for another", 9, func(t *tape) {
			at(t.from(1, 1, 5, 1), 10, 11)
			at(t.from(2, 1, 4, 1), 0, 1)
		}, holds, "linear.result=ok"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tape := newTape(row.stock)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			if v.Finding != row.want || v.Kept != (row.want == holds) || (len(v.Reasons) == 0) != (row.want == holds) {
				t.Errorf("finding %s, kept %v; want %s; reasons %v", v.Finding, v.Kept, row.want, v.Reasons)
			}
			for _, wrong := range wrongNumbers(t, v, row.numbers) {
				t.Error(wrong)
			}
			if v.Accepted+v.Busy+v.SoldOut+v.Failed+v.Unknown != v.Sent {
				t.Errorf("outcomes do not add up to sent: %+v", v)
			}
		})
	}
}

// A fault has a reason of its own that names where to look, and the sentence of the verdict says what was lost.
func TestWhatAFaultIsCalled(t *testing.T) {
	for _, row := range []struct {
		name         string
		do           func(*tape)
		reason, lost string
	}{
		{"a wrong subtraction", func(t *tape) {
			t.next(1)
			t.records[0].Remaining, t.account.Orders[0].Remaining = 5, 5
		}, "the first is o1: 5 - 1 is not 5", "the stock is wrong"},
		{"three too many, the last ones of two units", func(t *tape) {
			for _, quantity := range []int64{2, 2, 2, 2} {
				r := t.next(quantity)
				at(r, 0, r.Seq)
			}
		}, "oversold by 3 units: 8 sold of 5; answered last: o4, o3", "3 units oversold"},
		{"seven too many, of which five are named", func(t *tape) {
			for range 12 {
				r := t.next(1)
				at(r, 0, r.Seq)
			}
		}, "answered last: o12, o11, o10, o9, o8", "7 units oversold"},
		{"a unit lost", func(t *tape) { t.next(1); t.account.After.Quantity++ }, "1 unit lost: ", "1 unit lost"},
		{"a unit gone", func(t *tape) { t.next(1); t.account.After.Quantity-- }, "1 unit vanished", "1 unit vanished"},
		{"a fence", func(t *tape) {
			t.next(1).Fence = 2
			t.next(1).Fence = 1
		}, "order o2 with fence 1", "1 fence went backwards"},
		{"a refusal", func(t *tape) {
			at(t.answer(loadtest.SoldOut, 1), 0, 1)
			at(t.next(1), 2, 3)
		}, "request r1", "1 request wrongly told sold out"},
	} {
		tape := newTape(5)
		row.do(tape)
		v := tape.judge(loadtest.Cluster)
		named := slices.ContainsFunc(v.Reasons, func(r loadtest.Reason) bool {
			return strings.Contains(r.Text.EN, row.reason)
		})
		if !named || !strings.Contains(v.Sentence.EN, row.lost) || strings.Contains(v.Sentence.EN, " and ") {
			t.Errorf("%s: %q, %v; want %q and %q", row.name, v.Sentence.EN, v.Reasons, row.lost, row.reason)
		}
	}
}

// A certificate names both orders. Ten are kept, and one more for each SKU that has none among them.
func TestCertificates(t *testing.T) {
	tape := newTape(10)
	tape.sell(3, 10, 1)
	tape.sell(3, 10, 1)
	want := []loadtest.Collision{{
		Store: "redis", SKU: "pen", Epoch: 2, Version: 3,
		Orders: [2]loadtest.Sold{
			{OrderID: "o1", RequestID: "r1", Instance: "app-2", Read: 10, Remaining: 9},
			{OrderID: "o2", RequestID: "r2", Instance: "app-1", Read: 10, Remaining: 9},
		},
	}}
	if v := tape.judge(loadtest.Cluster); !slices.Equal(v.Certificates, want) {
		t.Errorf("certificates %+v, want %+v", v.Certificates, want)
	}
	many := newTape(100)
	for i := range uint64(12) {
		many.sell(3+2*i, 100-int64(i), 1)
		many.sell(3+2*i, 100-int64(i), 1)
	}
	v := judgeAll(many.of("ink"), tape)
	if v.Collisions != 13 || len(v.Certificates) != 11 || v.Certificates[10].SKU != "pen" {
		t.Errorf("%d collisions, %d certificates: %+v", v.Collisions, len(v.Certificates), v.Certificates)
	}
}

// The findings about several SKUs are added, and each is reported for its own SKU only.
func TestJudgeSeveralSKUs(t *testing.T) {
	over := func() *tape {
		t := newTape(2)
		t.next(1)
		t.next(2)
		t.account.After.Quantity = 1
		t.answer(loadtest.SoldOut, 1)
		return t
	}
	right := newTape(2)
	right.next(1)
	for _, wrong := range wrongNumbers(t, judgeAll(over().of("ink"), over().of("pad"), right),
		"initial_units=6 oversold_units=2 remaining_units=3 lost_units=4 false_sold_out=0 accepted_units=7") {
		t.Error(wrong)
	}
	lie := newTape(2)
	lie.next(1)
	lie.next(1)
	lie.of("ink")
	lie.account.Orders[1].OrderID, lie.account.Orders[1].RequestID = "x", "rx" // a phantom and a foreign order
	lie.records[0].Reply = loadtest.Reply{Outcome: loadtest.Busy}
	v := judgeAll(lie, right)
	for _, wrong := range wrongNumbers(t, v, "phantoms=1 denied=1 foreign=1 finding=broken") {
		t.Error(wrong)
	}
	for _, r := range v.Reasons {
		if !strings.HasPrefix(r.Text.EN, "ink") {
			t.Errorf("said of no SKU, or of the wrong one: %s", r.Text)
		}
	}
}

// The text about false refusals names the earliest. The text about a sale at the wrong time names the request that was
// sent too late, and the one that was answered before.
func TestTheExampleIsTheOneToLookAt(t *testing.T) {
	refused := newTape(9)
	at(refused.next(1), 0, 1)
	at(refused.answer(loadtest.SoldOut, 1), 2, 3)
	at(refused.answer(loadtest.SoldOut, 2), 4, 5)
	early := newTape(9)
	at(early.next(1), 10, 11) // the first by its version, and the last sent
	at(early.next(1), 5, 12)
	at(early.next(1), 0, 1)
	for _, row := range []struct {
		tape  *tape
		names []string
		not   string
	}{{refused, []string{"r2", "8 units"}, "r3"}, {early, []string{"r1", "r3"}, "r2"}} {
		why := row.tape.judge(loadtest.Cluster).Linear.Why.EN
		for _, name := range row.names {
			if !strings.Contains(why, name) || strings.Contains(why, row.not) {
				t.Errorf("%q names not %q, or %q", why, name, row.not)
			}
		}
	}
}

// The same evidence keeps one promise and breaks another, or shows nothing.
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
		for i := range 2 {
			tape.sell(3, 10, 1)
			tape.account.Orders[i].Instance = fmt.Sprintf("app-%d", i%instances)
		}
		return tape
	}
	// patient makes each request wait for the reply to the previous one.
	patient := func(t *tape) *tape {
		for i := range t.records {
			at(&t.records[i], 10*i, 10*i+10)
		}
		return t
	}
	timeless := right(2)
	for i := range timeless.records {
		timeless.records[i].SentAt, timeless.records[i].DoneAt = time.Time{}, time.Time{}
	}
	lies, idle := newTape(10), newTape(10)
	lies.next(1)
	lies.account.Orders, lies.account.After.Sold = nil, 0
	idle.answer(loadtest.Failed, 1)
	said := make(map[words.Text]bool)
	for _, row := range []struct {
		scope      string
		tape       *tape
		kept, luck bool
	}{
		{loadtest.Nowhere, lossy(2), true, false},
		{loadtest.Nowhere, right(2), true, true},
		{loadtest.Nowhere, timeless, true, true}, // does not show that nothing could race
		{loadtest.Nowhere, patient(right(2)), true, false},
		{loadtest.Process, patient(right(2)), true, false},
		{loadtest.Nowhere, patient(lossy(2)), true, false},
		{loadtest.Nowhere, lies, false, false},
		{loadtest.Nowhere, idle, false, false},
		{loadtest.Process, right(1), true, false},
		{loadtest.Process, lossy(1), false, false},
		{loadtest.Process, lossy(2), true, false},
		{loadtest.Process, right(2), true, true},
		{loadtest.Process, idle, false, false},
		{loadtest.Cluster, right(2), true, false},
		{loadtest.Cluster, lossy(2), false, false},
		{loadtest.Cluster, idle, false, false},
		{"galaxy", right(1), false, false},
	} {
		v := row.tape.judge(row.scope)
		if v.Kept != row.kept || v.Luck != row.luck || v.Sentence.EN == "" || v.Sentence.ZH == "" {
			t.Errorf("%s: kept %v, luck %v, %q; want %v, %v", row.scope, v.Kept, v.Luck, v.Sentence, row.kept, row.luck)
		}
		said[v.Sentence] = true
	}
	if len(said) < 12 {
		t.Errorf("only %d sentences", len(said))
	}
}
