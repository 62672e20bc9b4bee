package report_test

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recordings are histories of runs of 30 workers on three instances with a real Redis, and with a real MariaDB where
// sales are merged, as docs/refresh recordings made them.
func recordings() []string {
	return []string{"none", "redis-watchdog", "segmented", "merged"}
}

func recorded(t testing.TB, name string) *loadtest.Result {
	t.Helper()
	return history(t, name).Result()
}

func history(t testing.TB, name string) *loadtest.History {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := loadtest.ReadHistory(unzipped)
	if err != nil {
		t.Fatalf("%s: %v (docs/refresh recordings makes it anew)", name, err)
	}
	return h
}

func mustHave(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("no %q", word)
		}
	}
}

// Real batches are in the order in which they say that they were made, and an order in time explains them. It is
// noticed if two sales of a batch change places, and if one was answered before it was made.
func TestRecordedBatches(t *testing.T) {
	r := recorded(t, "merged")
	v := r.Verdict
	if v.Finding != loadtest.Holds || v.Linear.Result != loadtest.InOrder || r.PerBatch() < 2 {
		t.Errorf("%s, %+v, %.1f sales in a batch", v.Finding, v.Linear, r.PerBatch())
	}
	first, second := neighbours(t, history(t, "merged"))
	h := history(t, "merged")
	a, b := &h.Records[first], &h.Records[second]
	a.Batch.Place, b.Batch.Place = b.Batch.Place, a.Batch.Place
	if v := h.Judge(); v.Finding != loadtest.Broken || v.Misplaced == 0 {
		t.Errorf("two sales change places: %s, %d misplaced", v.Finding, v.Misplaced)
	}
	h = history(t, "merged")
	b = &h.Records[second]
	b.SentAt = h.Header.StartedAt.Add(-time.Second)
	b.DoneAt = b.SentAt.Add(time.Millisecond)
	if v := h.Judge(); v.Linear.Result != loadtest.Illegal {
		t.Errorf("a sale is answered before the run began: %+v", v.Linear)
	}
}

// neighbours returns the places in a history of two sales of one batch, the first one first.
func neighbours(t *testing.T, h *loadtest.History) (first, second int) {
	t.Helper()
	for i, a := range h.Records {
		for j, b := range h.Records {
			if a.Receipt != nil && b.Receipt != nil && a.Batch.ID == b.Batch.ID && a.Batch.Place < b.Batch.Place {
				return i, j
			}
		}
	}
	t.Fatal("no batch has two sales")
	return 0, 0
}
