package report_test

import (
	"bytes"
	"encoding/csv"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

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
		rec.Outcome, rec.Error = o, "said \"no\", twice\nand again"
		r.Records = append(r.Records, rec)
	}
	r.Records[1].Status, r.Records[1].Problem = 503, "lock_busy"
	return r
}

func TestCSV(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteCSV(&b, []*loadtest.Result{mixed(), lossy(4)}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll() // every line has as many columns as the head
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1+5+4 || rows[0][12] != "outcome" || rows[1][12] != "accepted" || rows[2][12] != "busy" ||
		rows[2][11] != "1.500" {
		t.Errorf("%d rows, %q", len(rows), rows[:3])
	}
	if rows[2][31] != "said \"no\", twice\nand again" || rows[2][17] != "" || rows[1][17] != "1000" {
		t.Errorf("%q", rows[2])
	}
	b.Reset()
	if err := report.WriteCSV(&b, []*loadtest.Result{merged(1, 2)}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(b.String(), ",batch0,2,2\n") {
		t.Errorf("the batch is not told: %s", b.String())
	}
}

// JMeter reads columns by the names in the first line, times in milliseconds, and success as a word.
func TestJTL(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteJTL(&b, []*loadtest.Result{mixed()}); err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(b.String(), "\n")
	if head != "timeStamp,elapsed,label,responseCode,responseMessage,threadName,dataType,success,failureMessage,"+
		"bytes,sentBytes,grpThreads,allThreads,URL,Latency,IdleTime,Connect" {
		t.Errorf("%s", head)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	// In the order of completion: the accepted one comes last.
	for i, want := range []string{"lock busy,503,true", "lock sold out,Non HTTP response code: " +
		"sold_out,true", "lock failed,Non HTTP response code: failed,false", "lock unknown,Non HTTP response " +
		"code: unknown,false", "lock accepted,200,true"} {
		row := rows[i+1]
		if got := strings.Join([]string{row[2], row[3], row[7]}, ","); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	if rows[1][0] != "1767355200000" || rows[1][1] != "1" {
		t.Errorf("times %q", rows[1][:2])
	}
}

// Presentation programs can open the pictures.
func TestPictures(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "slides")
	// One run is enough: with the race detector, drawing takes seconds.
	names, err := report.WritePictures(dir, report.PNG, "en", []*loadtest.Result{ran("none", loadtest.Nowhere, false)})
	if err != nil || len(names) != 1 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		picture, err := png.Decode(file)
		file.Close()
		if err != nil || picture.Bounds().Dx() != 1920 {
			t.Errorf("%s: %v", name, err)
		}
	}
	names, err = report.WritePictures(dir, report.SVG, "en", []*loadtest.Result{lossy(60), mixed()})
	if err != nil || len(names) != 9 {
		t.Fatalf("%q, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		wellFormed(t, name, text)
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
		names, err := report.WritePictures(dir, report.SVG, "en", []*loadtest.Result{run})
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
