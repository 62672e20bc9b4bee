package traces_test

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var picture = flag.Bool("update", false, "draw docs/trace.svg and docs/trace.zh-CN.svg from this run")

// words are what the picture says, in English and Chinese.
var words = [][2]string{
	{"A sale under zk-sequential on MySQL, as a collector got it", "MySQL 上 zk-sequential 锁下的一次扣减，按收集器收到的内容"},
	{"ms", "毫秒"},
}

// draw draws a trace.
func draw(t *testing.T, trace []span) {
	t.Helper()
	for lang, file := range []string{"../../docs/trace.svg", "../../docs/trace.zh-CN.svg"} {
		if err := os.WriteFile(file, []byte(svg(trace, lang)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func svg(trace []span, lang int) string {
	const row, left, width = 24, 280, 560
	var body strings.Builder
	text := func(x, y int, class, s string) {
		fmt.Fprintf(&body, `<text x="%d" y="%d" class="%s">%s</text>`+"\n", x, y, class, s)
	}
	y := 34
	text(16, y, "title", words[0][lang])
	began := slices.MinFunc(trace, func(a, b span) int { return cmp.Compare(a.began, b.began) }).began
	var ended uint64
	for _, s := range trace {
		ended = max(ended, s.began+s.took)
	}
	scale := func(ns uint64) float64 { return float64(ns) / float64(max(ended-began, 1)) * width }
	for _, line := range tree(trace) {
		y += row
		text(16+14*line.depth, y, "name", line.name)
		fmt.Fprintf(&body, `<rect x="%.1f" y="%d" width="%.1f" height="14" rx="2" class="%s"/>`+"\n",
			left+scale(line.began-began), y-11, max(scale(line.took), 1.5), colour(line.span))
		text(left+width+12, y, "time", fmt.Sprintf("%.2f %s", float64(line.took)/1e6, words[1][lang]))
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 940 %d" width="940" height="%[1]d"`+
		` font-family="sans-serif" font-size="13">
<style>
.title{font-size:16px;font-weight:bold}.name{font-family:monospace}.time{fill:#555}
.request{fill:#4c78a8}.phase{fill:#9ecae9}.call{fill:#f58518}.batch{fill:#54a24b}
</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, y+20, body.String())
}

// A line is a span with the number of spans above it in its trace.
type line struct {
	span
	depth int
}

func tree(g []span) (lines []line) {
	slices.SortFunc(g, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.began, b.began), -cmp.Compare(a.took, b.took))
	})
	known := func(id string) bool { return slices.ContainsFunc(g, func(s span) bool { return s.id == id }) }
	var below func(parent string, depth int)
	below = func(parent string, depth int) {
		for _, s := range g {
			if s.parent == parent || parent == "" && !known(s.parent) {
				lines = append(lines, line{s, depth})
				below(s.id, depth+1)
			}
		}
	}
	below("", 0)
	return lines
}

func colour(s span) string {
	switch {
	case s.attributes["db.system.name"] != "":
		return "call"
	case slices.Contains([]string{"wait", "read", "think", "write"}, s.name):
		return "phase"
	case s.name == "batch":
		return "batch"
	}
	return "request"
}
