package report

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"
)

var (
	durations = regexp.MustCompile(`(\d+(\.\d+)?(h|m|s|ms|µs|ns))+\b`)
	fences    = regexp.MustCompile(`(fence(?: that the store has seen is| 是)?) (\d+)\b`)
	instances = regexp.MustCompile(`\bapp-\d+\b`)
	skus      = regexp.MustCompile(`\blab-[a-z0-9-]+-\d+\b`)
	addresses = regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`)
	sessions  = regexp.MustCompile(`0x[0-9a-f]{6,}`)
	orders    = regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}\b|\b[0-9a-f]{16,}\b`)
)

// Generic takes out of evidence what differs from run to run and proves nothing, so that a file that is kept changes only with what was found:
// fences are numbered by size, instances by appearance, and times are rounded.
func Generic(lines []string) []string {
	var seen []int64
	var names []string
	for _, line := range lines {
		for _, m := range fences.FindAllStringSubmatch(line, -1) {
			if n, err := strconv.ParseInt(m[2], 10, 64); err == nil && !slices.Contains(seen, n) {
				seen = append(seen, n)
			}
		}
		for _, name := range instances.FindAllString(line, -1) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(seen)
	out := make([]string, len(lines))
	for i, line := range lines {
		line = fences.ReplaceAllStringFunc(line, func(text string) string {
			m := fences.FindStringSubmatch(text)
			n, _ := strconv.ParseInt(m[2], 10, 64)
			return fmt.Sprintf("%s no. %d", m[1], slices.Index(seen, n)+1)
		})
		line = instances.ReplaceAllStringFunc(line, func(name string) string { return fmt.Sprintf("app-%d", slices.Index(names, name)+1) })
		line = skus.ReplaceAllString(line, "SKU")
		line = addresses.ReplaceAllString(line, "127.0.0.1:PORT")
		line = sessions.ReplaceAllString(line, "ID")
		line = orders.ReplaceAllString(line, "ID")
		out[i] = durations.ReplaceAllStringFunc(line, about)
	}
	return out
}

// about rounds a time so far that another run rounds to the same, mostly. Whole seconds are somebody's setting and stay.
func about(text string) string {
	d, err := time.ParseDuration(text)
	switch {
	case err != nil || d%time.Second == 0:
		return text
	case d < time.Second/2:
		return "less than 500ms"
	case d < 5*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(5 * time.Second).String()
}
