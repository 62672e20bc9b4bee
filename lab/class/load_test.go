package class

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/loadtest"
)

// loaded is the history of a load that was made once, with its text.
func loaded(t testing.TB, name string) (h *loadtest.History, text string) {
	t.Helper()
	file, err := os.Open(filepath.Join("..", "..", "loadtest", "report", "testdata", name+".jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if h, err = loadtest.ReadHistory(bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	return h, string(content)
}

// pageOf is what a page knows after some frames.
func pageOf(frames []Frame) map[string]string {
	page := map[string]string{}
	for _, f := range frames {
		for key, value := range f.Set {
			if page[key] = string(value); page[key] == "null" {
				delete(page, key)
			}
		}
	}
	return page
}

func under(page map[string]string, prefix string) (n int) {
	for key := range page {
		if strings.HasPrefix(key, prefix) {
			n++
		}
	}
	return n
}

// The player ends with the verdict of the load's own judge, whatever the strategy, and every request is there.
func TestALoadIsPlayed(t *testing.T) {
	for _, name := range []string{"none", "redis-watchdog", "segmented", "merged"} {
		h, text := loaded(t, name)
		r, err := ReadLoad(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		want := h.Judge()
		v := r.Verdict
		code := map[bool]string{true: "race", false: "kept"}[want.RaceSeen]
		if v.Code != code || v.Sold != want.AcceptedUnits || v.Written != want.RemainingUnits ||
			v.Lost != want.LostUnits ||
			v.Oversold != want.OversoldUnits || (v.Collisions > 0) != (want.Collisions > 0) || v.Open != 0 {
			t.Errorf("%s: %+v\nwant %+v", name, v, want)
		}
		page := pageOf(r.Frames)
		if n := under(page, "t:"); n != len(h.Records) {
			t.Errorf("%s: %d requests are shown, want %d", name, n, len(h.Records))
		}
		if !strings.Contains(page["verdict"], want.Sentence.In("zh")) {
			t.Errorf("%s: %s", name, page["verdict"])
		}
		for i := range r.Frames[1:] {
			if r.Frames[i].At > r.Frames[i+1].At {
				t.Fatalf("%s: time goes back", name)
			}
		}
		// What was counted reply by reply is what the store said in the end.
		var before WallVerdict
		if err := json.Unmarshal([]byte(pageOf(r.Frames[:len(r.Frames)-1])["verdict"]), &before); err != nil {
			t.Fatal(err)
		}
		if before.Written != v.Written || before.Sold != v.Sold || before.Lost != v.Lost ||
			before.Collisions != v.Collisions {
			t.Errorf("%s: before the end %+v, and then %+v", name, before, v)
		}
		if code == "kept" && strings.Contains(fmt.Sprint(allVerdicts(r)), "race") {
			t.Errorf("%s: nothing was lost, and the page was red", name)
		}
	}
}

func allVerdicts(r *Recording) (codes []string) {
	for _, f := range r.Frames {
		var v WallVerdict
		if json.Unmarshal(f.Set["verdict"], &v) == nil {
			codes = append(codes, v.Code)
		}
	}
	return codes
}

// A file that is none is refused, and a load that was killed is played as far as it is known.
func TestReadLoad(t *testing.T) {
	_, text := loaded(t, "none")
	lines := strings.SplitAfter(text, "\n")
	for _, row := range []struct{ text, want string }{
		{lines[0], "no request"},
		{lines[0] + "x\n", "line 2: "},
		{`{"format":"stock-history","version":99}` + "\n", "line 1: this is version 99"},
		{`{"format":"other"}`, "line 1: "},
	} {
		if _, err := ReadLoad(strings.NewReader(row.text)); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%.40s: %v, want %s", row.text, err, row.want)
		}
	}
	r, err := ReadLoad(strings.NewReader(strings.Join(lines[:100], "") + lines[100][:20]))
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict.Known || r.Verdict.Sold == 0 {
		t.Errorf("a load that was killed: %+v", r.Verdict)
	}
}
