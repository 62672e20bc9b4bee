package checkout_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/golden"
	"example.com/stock/loadtest/checkout"
)

var (
	update     = flag.Bool("update", false, "rewrite what the judge said of the recorded histories")
	recordAnew = flag.Bool("record", false, "record the histories anew: it needs -update, too")
)

// recorded reads the history of an honest shop, which is kept so that what the judge says of it can be compared.
func recorded(t *testing.T, name string) *checkout.Result {
	t.Helper()
	file := filepath.Join("testdata", name+".jsonl.gz")
	if *recordAnew {
		s, url := serve(t, name)
		var history bytes.Buffer
		zipped := gzip.NewWriter(&history)
		err := errors.Join(checkout.WriteHistory(zipped, run(t, s, url, plan())), zipped.Close(),
			os.WriteFile(file, history.Bytes(), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	zipped, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	r, err := checkout.ReadHistory(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// told is all that a verdict says, in a few lines.
func told(v *checkout.Verdict) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", v.Finding, v.Sentence.EN)
	for _, c := range v.Checks {
		if c.Failed > 0 || c.NotChecked.EN != "" {
			fmt.Fprintf(&b, "\n  %s %d of %d %s", c.Name, c.Failed, c.Looked, c.NotChecked.EN)
		}
		for _, e := range c.Examples[:min(len(c.Examples), 1)] {
			fmt.Fprintf(&b, ": %s", e.EN)
		}
	}
	return b.String()
}

// The judge says of the same evidence what it has always said, word for word: of an honest shop, with what was counted
// and looked at, and of the same with one thing changed. Whether it should is what the other tests ask.
func TestVerdictsStayAsTheyAre(t *testing.T) {
	t.Parallel()
	rows := doctors()
	maps.Copy(rows, liars())
	t.Run("honest", func(t *testing.T) {
		t.Parallel()
		stay(t, "honest", slices.Sorted(maps.Keys(rows)), func(what string, e *checkout.Evidence, n int) bool {
			return rows[what].do(e, n)
		})
	})
	t.Run("few-open", func(t *testing.T) {
		t.Parallel()
		names := fields(t, &recorded(t, "few-open").Evidence, "")
		stay(t, "few-open", slices.Sorted(maps.Keys(names)), func(name string, e *checkout.Evidence, n int) bool {
			list, how := fields(t, e, name)[name], rules()[name]
			if how.change == nil {
				how.change = change
			}
			how.change(list[n%len(list)].Value, n)
			return true
		})
	})
}

// stay compares what the judge says of a history, and of it with each of these changes at three places, with what it
// said before.
func stay(t *testing.T, name string, whats []string, do func(what string, e *checkout.Evidence, n int) bool) {
	r := recorded(t, name)
	var b strings.Builder
	for _, c := range r.Verdict.Checks {
		fmt.Fprintf(&b, "%s: looked at %d\n", c.Name, c.Looked)
	}
	fmt.Fprintf(&b, "%s\n%+v\n", told(&r.Verdict), r.Figures)
	dice := rand.New(rand.NewPCG(1, 2))
	for _, what := range whats {
		for range 3 {
			if e, n := clone(&r.Evidence), dice.IntN(1<<20); do(what, e, n) {
				v := checkout.Judge(e)
				fmt.Fprintf(&b, "%s at %d: %s\n", what, n, told(&v))
			}
		}
	}
	golden.Compare(t, filepath.Join("testdata", name+".txt"), b.String(), *update)
}

// A replayed extension ends when the first reply said. Few runs have one, so it is looked for in the recorded history.
func TestAReplayedExtensionEndsAsBefore(t *testing.T) {
	t.Parallel()
	e := &recorded(t, "honest").Evidence
	r := record(e, 0, func(r *checkout.Record) bool { return r.Op == checkout.OpExtend && r.Replayed && r.Again })
	r.Got.ExpiresAt = r.Got.ExpiresAt.Add(10 * time.Millisecond) // so little may be due to the clocks
	if v := checkout.Judge(e); v.Check(checkout.CheckTold).Failed != 1 {
		t.Errorf("%s: %v", v.Sentence, failures(&v))
	}
}
