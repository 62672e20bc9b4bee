package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// wellFormed fails if text is no XML.
func wellFormed(t *testing.T, name string, text []byte) {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
	}
}

// mixed returns a run with one request of each outcome.
func mixed() *loadtest.Result {
	r := ran("lock", loadtest.Cluster, true, stay{worker: 1, asked: 0, from: 1, to: 2, version: 1})
	for i, o := range loadtest.Outcomes()[1:] {
		rec := loadtest.Record{
			Seq:      i + 2,
			Worker:   2,
			Strategy: "lock",
			Store:    "redis",
			SKU:      "pen",
			Quantity: 1,
			SentAt:   noon,
			DoneAt:   noon.Add(1500 * time.Microsecond),
		}
		rec.Outcome = o
		r.Records = append(r.Records, rec)
	}
	return r
}

// Programs can open the pictures: a stock and percentiles of each run, if it has any, and one that compares the runs.
func TestPictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pictures")
	empty := ran("none", loadtest.Nowhere, false)
	for _, row := range []struct {
		runs []*loadtest.Result
		want []string
	}{
		{[]*loadtest.Result{empty}, []string{"none-redis-stock.svg"}},
		{[]*loadtest.Result{lossy(60), mixed()}, []string{
			"01-none-redis-stock.svg", "01-none-redis-percentiles.svg", "02-lock-redis-stock.svg",
			"02-lock-redis-percentiles.svg", "comparison.svg",
		}},
	} {
		names, err := report.WritePictures(dir, "zh", row.runs)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, name := range names {
			got = append(got, filepath.Base(name))
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			wellFormed(t, name, text)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("pictures %q, want %q", got, row.want)
		}
	}
}

// A strategy may be called anything in a history. Its pictures are files of their own in the folder.
func TestNamesOfStrategiesAreNoPaths(t *testing.T) {
	t.Parallel()
	for strategy, want := range map[string]string{
		"redis-watchdog": "redis-watchdog", "v1.2": "v1.2", "商店": "商店", "my shop": "my_shop",
		"../../x": "__.._x", "/etc/passwd": "_etc_passwd", "..": "_", `a\b`: "a_b", "a\x00b": "a_b",
		".hidden": "_hidden", "-rf": "_rf", strings.Repeat("é", 300): strings.Repeat("é", 50),
	} {
		got := report.FileName(strategy)
		if got != want || filepath.Base(got) != got || len(got) > 100 {
			t.Errorf("%q: %q, want %q", strategy, got, want)
		}
	}
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for _, strategy := range []string{"../../x", strings.Repeat("x", 300)} {
		run := lossy(6)
		run.Plan.Strategy = strategy
		names, err := report.WritePictures(dir, "en", []*loadtest.Result{run})
		if err != nil || len(names) == 0 {
			t.Errorf("%.20s: %v", strategy, err)
		}
		for _, name := range names {
			if filepath.Dir(name) != dir {
				t.Errorf("%q is not in %s", name, dir)
			}
		}
	}
}
