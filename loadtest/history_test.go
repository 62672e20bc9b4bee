package loadtest_test

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

func sample() *loadtest.History {
	tape := newTape(10)
	r := tape.next(1)
	r.Fence, r.WaitedMS, r.AcquiredAt, r.ReleasedAt = 7, 1.25, noon, noon.Add(time.Millisecond)
	tape.answer(loadtest.Busy, 1).Problem = "lock_busy"
	tape.answer(loadtest.Unknown, 1).Error = "no whole reply: <EOF>"
	wait := 5 * time.Second
	return &loadtest.History{
		Header: loadtest.Header{
			Format:    loadtest.Format,
			Version:   loadtest.Version,
			Run:       "load-x",
			Target:    "http://localhost",
			StartedAt: noon,
			Plan: loadtest.Plan{
				Strategy: "right", Store: "redis", SKU: "pen", Quantity: 1, Stock: 10, Requests: 3, Concurrency: 1,
				Wait: &wait, Timeout: 35 * time.Second,
			},
			Strategy: loadtest.Strategy{
				Name:      "right",
				Endpoint:  "/deduct",
				Available: true,
				Promise:   loadtest.Promise{Scope: loadtest.Cluster},
			},
			Command: "stock load --strategy right",
			Before:  []loadtest.Stock{tape.account.Before},
		},
		Records: tape.records, Orders: tape.account.Orders,
		End: tape.end(),
	}
}

// end returns the end of a history of the tape.
func (t *tape) end() *loadtest.End {
	return &loadtest.End{
		Stocks: []loadtest.Closing{
			{SKU: "pen", After: t.account.After, Complete: t.account.Complete, Gap: t.account.Gap},
		},
	}
}

func written(t testing.TB, h *loadtest.History) string {
	t.Helper()
	var b bytes.Buffer
	if err := loadtest.WriteHistory(&b, h); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestHistoryRoundTrip(t *testing.T) {
	want := sample()
	text := written(t, want)
	got, err := loadtest.ReadHistory(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v\nfrom %s", got, want, text)
	}
	if v := got.Judge(); v.Finding != loadtest.Holds || v.Accepted != 1 {
		t.Errorf("judged again: %+v", v)
	}
	if !strings.Contains(text, "<EOF>") {
		t.Error("< and > are escaped, which people cannot read")
	}
}

func TestHistoryOfAKilledRun(t *testing.T) {
	text := written(t, sample())
	lines := strings.SplitAfter(text, "\n")
	whole := strings.Join(lines[:3], "")
	h, err := loadtest.ReadHistory(strings.NewReader(whole + lines[3][:40]))
	if !errors.Is(err, loadtest.ErrCut) ||
		!strings.HasPrefix(err.Error(), "line 4: the last line is cut off after 40 bytes") {
		t.Errorf("got %v, want line 4 cut off", err)
	}
	if h == nil || len(h.Records) != 2 || h.End != nil {
		t.Fatalf("kept %+v, want two records", h)
	}
	if v := h.Judge(); v.Finding != loadtest.Undecided {
		t.Errorf("finding %s of a history without an end, want unknown", v.Finding)
	}
	// A history that ends between two lines needs no forgiveness.
	if h, err = loadtest.ReadHistory(strings.NewReader(whole)); err != nil || len(h.Records) != 2 {
		t.Errorf("got %v, %+v", err, h)
	}
	// Only the newline is missing, so the line is complete.
	if h, err = loadtest.ReadHistory(strings.NewReader(strings.TrimSuffix(text, "\n"))); err != nil || h.End == nil {
		t.Errorf("got %v, %+v", err, h)
	}
}

func TestReadHistoryNamesTheLine(t *testing.T) {
	lines := strings.SplitAfter(written(t, sample()), "\n")
	header, accepted, busy, order, end := lines[0], lines[1], lines[2], lines[4], lines[5]
	for _, row := range []struct{ name, text, want string }{
		{"empty", "", "line 1: the history is empty"},
		{"no history", "{}\n", `line 1: a history begins with {"format":"stock-history","version":2`},
		{"no JSON", "hello\n", "line 1: a history begins with"},
		{"header cut off", header[:50], "line 1: a history begins with"},
		{
			"later version", strings.Replace(header, `"version":2`, `"version":9,"new":1`, 1),
			"line 1: this is version 9 of the format, and only version 2 can be read here",
		},
		{
			"unknown key in the plan", strings.Replace(header, `"requests"`, `"reqests"`, 1),
			`line 1: json: unknown field "reqests"`,
		},
		{"bad wait", strings.Replace(header, `"wait":"5s"`, `"wait":"5"`, 1), "line 1: time: missing unit"},
		{
			"too many SKUs", strings.Replace(header, `"stock":10`, `"stock":10,"skus":4611686018427387904`, 1),
			"line 1: plan: skus: must be from 1 to 1000, is 4611686018427387904",
		},
		{"fewer than no SKUs", strings.Replace(header, `"stock":10`, `"stock":10,"skus":-1`, 1), "line 1: plan: skus:"},
		{"a rate", strings.Replace(header, `"stock":10`, `"stock":10,"rate":"x"`, 1), "line 1: rate: "},
		{
			"unknown key", header + strings.Replace(busy, `"worker"`, `"wroker"`, 1),
			`line 2: json: unknown field "wroker"`,
		},
		{
			"wrong type", header + strings.Replace(busy, `"seq":2`, `"seq":"2"`, 1),
			"line 2: json: cannot unmarshal string",
		},
		{
			"unknown outcome", header + strings.Replace(busy, `"busy"`, `"bizzy"`, 1),
			`line 2: outcome "bizzy" is not one of`,
		},
		{
			"accepted without receipt", header + strings.Replace(busy, `"busy"`, `"accepted"`, 1),
			"line 2: an accepted request must have",
		},
		{
			"receipt of a refused one", header + strings.Replace(accepted, `"accepted"`, `"busy"`, 1),
			"line 2: a request with outcome busy cannot have",
		},
		{
			"done before sent", header + strings.Replace(busy, `T12:00:00.001Z`, `T11:00:00Z`, 1),
			"line 2: sent_at and done_at",
		},
		{"seq 0", header + strings.Replace(busy, `"seq":2`, `"seq":0`, 1), "line 2: seq must be 1 or more"},
		{"no units", header + strings.Replace(busy, `"quantity":1`, `"quantity":0`, 1), "line 2: quantity must be 1"},
		{"cut off in the middle", header + busy[:20] + "\n" + busy, "line 2: unexpected EOF"},
		{"two in a line", header + strings.TrimSpace(busy) + busy, "line 2: there is something after"},
		{"blank line", header + "\n" + busy, "line 2: EOF"},
		{"none of the three", header + "{}\n", "line 2: must be a request, an order or the end"},
		{
			"two of the three", header + strings.TrimSuffix(strings.TrimSpace(order), "}") + "," + end[1:],
			"line 2: must be a request, an order or the end",
		},
		{"request after order", header + order + busy, "line 3: a request cannot follow an order"},
		{
			"warm-up after the run", header + busy + strings.Replace(busy, `"seq":2`, `"warm":true,"seq":2`, 1),
			"line 3: a request of the warm-up cannot follow one of the run",
		},
		{
			"sent before it was planned",
			header + strings.Replace(busy, `"sent_at"`, `"planned_at":"2026-01-02T12:00:01Z","sent_at"`, 1),
			"line 2: sent_at must not be earlier than planned_at",
		},
		{
			"order without id", header + strings.Replace(order, `"order_id":"o1"`, `"order_id":""`, 1),
			"line 2: an order must have",
		},
		{"after the end", header + end + busy, "line 3: nothing can follow the end"},
		{"long line", header + strings.Repeat(" ", 1<<20) + "\n", "line 2: is longer than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h, err := loadtest.ReadHistory(strings.NewReader(row.text))
			if h != nil || err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
}

func TestReadHistoryPassesOnReadErrors(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(written(t, sample())), errReader{})
	if _, err := loadtest.ReadHistory(broken); !errors.Is(err, errFull) {
		t.Errorf("got %v", err)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errFull }

// A history that is read can be written, reads as the same, and can be judged.
func FuzzReadHistory(f *testing.F) {
	text := written(f, sample())
	f.Add([]byte(text))
	f.Add([]byte(text[:len(text)-30])) // killed
	f.Add([]byte(strings.ReplaceAll(text, "pen", "p\u00e9n\\u0000\x80")))
	f.Add([]byte("{\"format\":\"stock-history\",\"version\":1}\n{\"end\":{}}\n"))
	f.Add([]byte("{\"format\":\"stock-history\",\"version\":1}\n{\"order\":{\"order_id\":\"\",\"quantity\":-1}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := loadtest.ReadHistory(bytes.NewReader(data))
		if h == nil {
			if err == nil {
				t.Fatal("neither a history nor an error")
			}
			return
		}
		h.Judge()
		once := written(t, h)
		again, err := loadtest.ReadHistory(strings.NewReader(once))
		if err != nil {
			t.Fatalf("read back: %v\n%s", err, once)
		}
		if twice := written(t, again); twice != once {
			t.Fatalf("first  %s\nsecond %s", once, twice)
		}
	})
}
