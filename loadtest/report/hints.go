package report

import (
	"fmt"
	"sort"
)

// at is the height of a line at ms: that of the last point before.
func level(line []moment, ms float64) float64 {
	i := sort.Search(len(line), func(i int) bool { return line[i].ms > ms })
	return line[max(i-1, 0)].units
}

// hints say for n stretches of the run what the stock was at their end.
func (c *course) hints(n int) []hint {
	end := c.truth[len(c.truth)-1].ms
	var list []hint
	for i := range n {
		from, to := end*float64(i)/float64(n), end*float64(i+1)/float64(n)
		truth := level(c.truth, to)
		text := fmt.Sprintf("%s: %.0f less what was sold is %.0f", millis(to), c.first, truth)
		if len(c.written) > 0 {
			written := level(c.written, to)
			text += fmt.Sprintf("; the store says %.0f", written)
			if gap := written - truth; gap > 0 {
				text += fmt.Sprintf("\n%.0f sold and still counted as stock", gap)
			}
		}
		list = append(list, hint{from, to, text})
	}
	return list
}

// gaps reports whether the store ever said other than was true. Two orders may be told in another order than they were written in, by as long as
// a reply takes: what is gone at the end of the run is no gap.
func (c *course) gaps() bool {
	return len(c.written) > 0 && c.written[len(c.written)-1].units != c.truth[len(c.truth)-1].units
}
