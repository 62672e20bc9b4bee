package grade_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lab/grade"
	"example.com/stock/lock/locktest/servertest"
)

// A desk is a lock behind HTTP, with the faults that a test wants.
type desk struct {
	mu     sync.Mutex
	holder map[string]string
	count  int

	shared bool            // it grants the lock to everybody
	most   int             // grants for one key; 0: any number
	given  map[string]int  // grants so far
	fences func(n int) int // of the n-th grant; nil: no fences
}

func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := r.FormValue("key")
	switch r.URL.Path {
	case "/acquire":
		if d.holder[key] != "" && !d.shared || d.most > 0 && d.given[key] >= d.most {
			fmt.Fprintln(w, "busy")
			return
		}
		d.count++
		d.given[key]++
		d.holder[key] = fmt.Sprintf("t%d", d.count)
		if d.fences != nil {
			fmt.Fprintln(w, "ok", d.holder[key], d.fences(d.count))
			return
		}
		fmt.Fprintln(w, "ok", d.holder[key])
	case "/release":
		if d.holder[key] == r.FormValue("token") {
			delete(d.holder, key)
		}
		fmt.Fprintln(w, "ok")
	default:
		http.NotFound(w, r)
	}
}

// at grades a desk.
func at(t *testing.T, d *desk, only ...string) grade.Report {
	t.Helper()
	d.holder, d.given = map[string]string{}, map[string]int{}
	server := httptest.NewServer(d)
	defer server.Close()
	return run(t, grade.Options{
		URL: server.URL, Only: only, Lease: 200 * time.Millisecond, Wait: time.Second, Waiters: 5, Grace: patience,
	})
}

// A lock behind HTTP is graded in what needs no process, and says of the rest why it is not tested.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	type row struct {
		name string
		desk *desk
		want string
		// whether the cause of a refused write is that the fences do not grow
		fall bool
	}
	for _, row := range servertest.Some(3, []row{
		{
			"grants to everybody, with fences",
			&desk{shared: true, fences: func(n int) int { return n }},
			"thirty-at-once (oversells|blocks), work-outlasts-lease holds, two-keys oversells, " +
				"hundred-waiters (holds|oversells|blocks)",
			false,
		},
		{
			"grants to everybody",
			&desk{shared: true},
			"thirty-at-once oversells, work-outlasts-lease oversells, two-keys oversells, " +
				"hundred-waiters (holds|oversells)",
			false,
		},
		{
			"serves three of a key",
			&desk{most: 3},
			"thirty-at-once blocks, work-outlasts-lease holds, two-keys holds, hundred-waiters starves",
			false,
		},
		{
			"fences fall",
			&desk{fences: func(n int) int { return 1000 - n }},
			"thirty-at-once blocks, work-outlasts-lease holds, two-keys holds, hundred-waiters blocks",
			true,
		},
		{
			"good",
			&desk{},
			"thirty-at-once holds, work-outlasts-lease holds, two-keys holds, hundred-waiters holds",
			false,
		},
	}) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			report := at(t, row.desk)
			for _, r := range report.Results {
				if strings.Contains(r.Why, "fences do not grow") && !row.fall {
					t.Errorf("%s: %s", r.Scenario, r.Why)
				}
				if r.Grade != grade.NotTestable {
					got = append(got, r.Scenario+" "+string(r.Grade))
				} else if !strings.Contains(r.Why, "behind HTTP") {
					t.Errorf("%s is not testable: %s", r.Scenario, r.Why)
				}
			}
			if grades := strings.Join(got, ", "); !regexp.MustCompile("^" + row.want + "$").MatchString(grades) {
				t.Errorf("got  %s\nwant %s", grades, row.want)
			}
		})
	}
}

// A page shows the grades in both languages, a diagram of each failure, and nothing of the lock as markup.
func TestPage(t *testing.T) {
	t.Parallel()
	report := at(t, &desk{shared: true}, "work-outlasts-lease", "hundred-waiters")
	report.Lock = `mylock <script>alert("1")</script>`
	report.Results[1].Why = `<img src="x">`
	var page bytes.Buffer
	if err := grade.WriteHTML(&page, report, "zh", ".."); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, want := range []string{
		`<figure class="steps"`, `id="zh" checked=""`, `<span lang="zh">超卖</span>`, `<b class="oversells">`,
		`href="../docs/lessons/04-lease-and-watchdog.md"`, `&lt;img src=`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	failures := 1 // and that of the waiters, if two of them have sold at once
	if report.Results[1].Grade == grade.Oversells {
		failures++
	}
	if n := strings.Count(text, `<figure class="steps"`); n != failures {
		t.Errorf("%d figures, want those of the %d failures alone", n, failures)
	}
	if n := strings.Count(text, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The exit status is that of the worst: a failure counts more than what could not be graded.
func TestWorst(t *testing.T) {
	t.Parallel()
	for want, list := range map[grade.Grade][]grade.Grade{
		grade.Holds:    {grade.Holds, grade.NotTestable},
		grade.Ungraded: {grade.Holds, grade.Ungraded, grade.NotTestable},
		grade.Blocks:   {grade.Ungraded, grade.Blocks, grade.Holds},
	} {
		var r grade.Report
		for _, g := range list {
			r.Results = append(r.Results, grade.Result{Grade: g})
		}
		if got := r.Worst(); got != want {
			t.Errorf("the worst of %v is %s, want %s", list, got, want)
		}
	}
}
