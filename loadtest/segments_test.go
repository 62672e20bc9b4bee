package loadtest_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// from sells from a segment that has the given version and quantity.
func (t *tape) from(segment int, version uint64, read, quantity int64) *loadtest.Record {
	left := t.account.After.Quantity - quantity
	r := t.sell(version, read, quantity)
	r.Segment = segment
	t.account.Orders[len(t.account.Orders)-1].Segment = segment
	t.account.After.Quantity = left // of all segments
	return r
}

// Versions, reads and fences of one segment do not matter for another.
func TestJudgeSegments(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(*tape)
		want loadtest.Finding
		says string
	}{
		{"each has its versions", func(t *tape) {
			t.from(1, 1, 5, 1)
			t.from(2, 1, 5, 1)
			t.from(2, 2, 4, 1)
			t.from(1, 2, 4, 1)
		}, loadtest.Holds, ""},
		{
			"units moved in between", func(t *tape) { t.from(1, 1, 5, 5); t.from(1, 3, 8, 1); t.from(1, 4, 7, 1) },
			loadtest.Holds, "",
		},
		{"each has its fences", func(t *tape) {
			t.from(1, 1, 5, 1).Fence = 9
			t.from(1, 2, 4, 1).Fence = 10
			t.from(2, 1, 5, 1).Fence = 3
			t.from(3, 1, 5, 1).Fence = 2
		}, loadtest.Holds, ""},
		{"a collision in one", func(t *tape) {
			t.from(1, 1, 5, 1)
			t.from(2, 1, 5, 1)
			t.from(2, 1, 5, 1)
			t.account.After.Quantity++
		}, loadtest.Broken, "version 1 of segment 2 was read by order o2 (app-1) and by order o3 (app-2)"},
		{"a stale read in one", func(t *tape) {
			t.from(1, 7, 5, 1)
			t.from(2, 7, 5, 1)
			t.from(2, 8, 5, 1)
		}, loadtest.Broken, "the first is o3, which read 5"},
		{"a fence that drops in one", func(t *tape) {
			t.from(2, 1, 5, 1).Fence = 4
			t.from(2, 2, 4, 1).Fence = 3
		}, loadtest.Broken, "order o2 with fence 3"},
		{
			"lost in one", func(t *tape) { t.from(1, 1, 5, 1); t.account.After.Quantity++ }, loadtest.Broken,
			"1 unit lost",
		},
		{"sold out in every segment, but not in all of them", func(t *tape) {
			t.from(1, 1, 1, 1)
			t.answer(loadtest.SoldOut, 2)
		}, loadtest.Broken, "and 19 units left when it was answered"},
	} {
		t.Run(row.name, func(t *testing.T) {
			tape := newTape(20)
			row.do(tape)
			v := tape.judge(loadtest.Cluster)
			if v.Finding != row.want {
				t.Errorf("%s %v, want %s", v.Finding, v.Reasons, row.want)
			}
			var said strings.Builder
			for _, r := range v.Reasons {
				said.WriteString(r.Text.EN + "\n")
			}
			if !strings.Contains(said.String(), row.says) {
				t.Errorf("reasons %q, want %q", said.String(), row.says)
			}
			for _, c := range v.Certificates {
				if c.Segment != 2 {
					t.Errorf("certificate %+v, want segment 2", c)
				}
			}
		})
	}
}

// A history keeps everything that the verdict needs.
func TestHistoryKeepsSegments(t *testing.T) {
	tape := newTape(20)
	tape.from(1, 1, 5, 1).Tries = 3
	tape.from(2, 1, 5, 1)
	h := &loadtest.History{
		Header: loadtest.Header{
			Format:  loadtest.Format,
			Version: loadtest.Version,
			Before:  []loadtest.Stock{tape.account.Before},
			Plan:    loadtest.Plan{Store: "redis", Requests: 1},
		},
		Records: tape.records,
		Orders:  tape.account.Orders,
		End:     tape.end(),
	}
	h.Header.Strategy.Promise.Scope = loadtest.Cluster
	var file bytes.Buffer
	if err := loadtest.WriteHistory(&file, h); err != nil {
		t.Fatal(err)
	}
	read, err := loadtest.ReadHistory(&file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(read.Records[0], tape.records[0]) || read.Orders[1].Segment != 2 {
		t.Errorf("read %+v and %+v", read.Records, read.Orders)
	}
	if v := read.Judge(); v.Finding != loadtest.Holds {
		t.Errorf("%s %v", v.Finding, v.Reasons)
	}
}
