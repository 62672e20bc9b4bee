package report_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/lab"
)

func markdown(t *testing.T, r lab.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := matrix(r).WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Every case of the catalogue has its word and its evidence, every link leads somewhere, and every row of a table
// is as wide as its head.
func TestMarkdownHasEveryCase(t *testing.T) {
	text := markdown(t, whole())
	links := regexp.MustCompile(`\]\(#([^)]+)\)`).FindAllStringSubmatch(text, -1)
	cases := 0
	for _, s := range all() {
		cases += len(s.Cases)
		if !strings.Contains(text, "### "+s.Title.EN+" / "+s.Title.ZH) {
			t.Errorf("%s has no evidence", s.Name)
		}
	}
	if len(links) != cases+len(all()) {
		t.Errorf("%d links for %d cases of %d scenarios", len(links), cases, len(all()))
	}
	for _, m := range links {
		if n := strings.Count(text, `<a id="`+m[1]+`"></a>`); n != 1 {
			t.Errorf("#%s leads to %d places", m[1], n)
		}
	}
	width := 0
	for line := range strings.Lines(text) {
		switch columns := strings.Count(line, "|"); {
		case !strings.HasPrefix(line, "|"):
			width = 0
		case width == 0:
			width = columns
		case columns != width:
			t.Errorf("%d columns, the head has %d: %s", columns, width, line)
		}
	}
}

// Two runs that found the same make the same file, though ports, fences, times and names of instances differ.
func TestMarkdownOfAnotherRunIsTheSame(t *testing.T) {
	first, second := whole(), whole()
	first.Cells[0].Evidence = []lab.Evidence{
		{Kind: lab.Waited, Text: "B got the lock 9.934s after the crash"},
		{Kind: lab.Answer, Text: "A (app-20): sold, fence 1795273949909994"},
		{Kind: lab.Fence, Text: "the largest fence that the store has seen is 1795273949909999"},
		{Kind: lab.Served, Text: "redis: PTTL lab-get-then-del-54 = 2m0s at 127.0.0.1:4711"},
	}
	second.Cells[0].Evidence = []lab.Evidence{
		{Kind: lab.Waited, Text: "B got the lock 10.21s after the crash"},
		{Kind: lab.Answer, Text: "A (app-3): sold, fence 17"},
		{Kind: lab.Fence, Text: "the largest fence that the store has seen is 21"},
		{Kind: lab.Served, Text: "redis: PTTL lab-get-then-del-1234 = 2m0s at 127.0.0.1:31000"},
	}
	a := markdown(t, first)
	if a != markdown(t, second) {
		t.Error("they differ")
	}
	for _, want := range []string{
		"got the lock 10s after", "A (app-1): sold, fence no. 1", "has seen is no. 2",
		"PTTL SKU = 2m0s at 127.0.0.1:PORT",
	} {
		if !strings.Contains(a, want) {
			t.Errorf("%q is not there", want)
		}
	}
}
