package words

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Unknown returns the error for a name that is none of known, which must be lower-case. It has the names that somebody
// may have meant, or all if none is near and they are few. kind is what the names are of, such as a strategy.
func Unknown(kind Text, name string, known []string) *Error {
	quoted := strconv.Quote(name)
	if near := nearest(strings.ToLower(name), known); len(near) > 0 {
		return &Error{Text: Text{
			EN: "unknown " + kind.EN + " " + quoted + "; did you mean " + strings.Join(near, " or ") + "?",
			ZH: "没有叫 " + quoted + " 的" + kind.ZH + "；你要的是 " + strings.Join(near, " 或 ") + " 吗？",
		}}
	}
	return &Error{Text: Text{
		EN: "unknown " + kind.EN + " " + quoted + "; there are " + strings.Join(known, ", "),
		ZH: "没有叫 " + quoted + " 的" + kind.ZH + "；有 " + strings.Join(known, "、"),
	}}
}

// fewNames is how many names are listed if none of them is near.
const fewNames = 20

// nearest returns at most five names that contain name or differ from it in two letters or a third of them, nearest
// first. If there is none, and known is too long to be listed, these are the nearest three.
func nearest(name string, known []string) []string {
	distance := make(map[string]int)
	var near []string
	for _, k := range known {
		distance[k] = edits(name, k)
		if distance[k] <= max(2, len(name)/3) || len(name) > 2 && strings.Contains(k, name) {
			near = append(near, k)
		}
	}
	most := 5
	if len(near) == 0 && len(known) > fewNames {
		near, most = slices.Clone(known), 3
	}
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance[a], distance[b]) })
	return near[:min(most, len(near))]
}

// edits returns how many bytes must be added, removed or changed to make b of a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: from what was read of a to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // from a[:i] to b[:j]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
