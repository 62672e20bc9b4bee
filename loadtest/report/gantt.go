package report

import (
	"fmt"
	"html"
	"strings"
)

// Pixels of the picture of the lanes.
const (
	laneHeight = 13
	barHeight  = 9
	groupGap   = 9 // between the lanes of two instances
	axisHeight = 26
	labelWidth = 92
)

// gantt draws the lanes as two pictures side by side: the names, and the bars. Places along the time axis are percentages, so that the
// browser stretches the bars and leaves text and heights alone.
func (t *timeline) gantt() (names, bars string) {
	var n, b strings.Builder
	height := t.height()
	fmt.Fprintf(&n, `<svg class="names" width="%d" height="%d" aria-hidden="true">`, labelWidth, height)
	fmt.Fprintf(&b, `<svg class="bars" width="100%%" height="%d" role="img" aria-label="%s">`, height, html.EscapeString(t.caption()))
	for i, l := range t.lanes {
		y := t.y(i)
		if i == 0 || t.lanes[i-1].instance != l.instance {
			fmt.Fprintf(&n, `<text class="group" x="0" y="%d">%s</text>`, y+barHeight-1, html.EscapeString(short(l.instance)))
			fmt.Fprintf(&b, `<line class="rule" x1="0" x2="100%%" y1="%d" y2="%d"/>`, y-groupGap/2, y-groupGap/2)
		}
		fmt.Fprintf(&n, `<text class="lane" x="%d" y="%d">w%d</text>`, labelWidth-4, y+barHeight-1, l.worker)
	}
	n.WriteString("</svg>")
	bottom := height - axisHeight
	for _, tick := range ticks(t.from, t.to, 6) {
		fmt.Fprintf(&b, `<line class="tick" x1="%[1]s" x2="%[1]s" y1="0" y2="%[2]d"/><text class="ms" x="%[1]s" y="%[3]d">%[4]s</text>`,
			t.x(tick), bottom, bottom+15, axisLabel(tick, t.to-t.from))
	}
	for i := range t.bars {
		t.bar(&b, &t.bars[i])
	}
	b.WriteString("</svg>")
	return n.String(), b.String()
}

func (t *timeline) bar(b *strings.Builder, bar *bar) {
	y := t.y(bar.lane)
	fmt.Fprintf(b, `<g><title>%s</title>`, html.EscapeString(bar.title()))
	if bar.from > bar.asked {
		fmt.Fprintf(b, `<rect class="wait" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.asked), y+2, t.width(bar.asked, bar.from), barHeight-4)
	}
	fmt.Fprintf(b, `<rect class="hold" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.from), y, t.width(bar.from, bar.to), barHeight)
	if bar.together > 0 {
		fmt.Fprintf(b, `<rect class="overlap" x="%s" y="%d" width="%s" height="%d"/>`, t.x(bar.firstMet), y, t.width(bar.firstMet, bar.last), barHeight)
	}
	b.WriteString("</g>")
}

// title is what is shown when the bar is pointed at.
func (h *hold) title() string {
	r := h.rec
	var b strings.Builder
	fmt.Fprintf(&b, "order %s\n%s, worker %d, request %d\n", r.OrderID, instance(r.Instance), r.Worker, r.Seq)
	fmt.Fprintf(&b, "waited %s, held %s from %s on\n", millis(h.from-h.asked), millis(h.to-h.from), millis(h.from))
	if !r.Blind {
		fmt.Fprintf(&b, "read %d (version %d%s), wrote %d", r.Read, r.Version, segment(r.Segment), r.Remaining)
	}
	if r.Fence > 0 {
		fmt.Fprintf(&b, ", fence %d", r.Fence)
	}
	if h.together > 0 {
		fmt.Fprintf(&b, "\nNOT ALONE: with %s", party(h.partner.rec))
		if h.together > 1 {
			fmt.Fprintf(&b, " and %d more", h.together-1)
		}
	}
	return b.String()
}

func segment(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" of segment %d", n)
}

// caption says in a sentence what the picture shows, for those who do not see it.
func (t *timeline) caption() string {
	text := fmt.Sprintf("Timeline of %s in %s, from %s to %s of the run", count(len(t.bars), "hold"), count(len(t.lanes), "lane"), millis(t.from), millis(t.to))
	if t.pairs > 0 {
		return text + fmt.Sprintf("; %s overlapped in the whole run", count(t.pairs, "pair"))
	}
	return text + "; none overlapped where it must not"
}

func (t *timeline) height() int { return t.y(len(t.lanes)-1) + laneHeight + axisHeight }

// y is the top of the bars of a lane. Lanes of one instance stand together.
func (t *timeline) y(at int) int {
	y := groupGap
	for i := 1; i <= at; i++ {
		y += laneHeight
		if t.lanes[i].instance != t.lanes[i-1].instance {
			y += groupGap
		}
	}
	return y
}

func (t *timeline) x(ms float64) string {
	return fmt.Sprintf("%.3f%%", 100*(ms-t.from)/max(t.to-t.from, 1e-9))
}

// width is never so small that nothing is seen of it.
func (t *timeline) width(from, to float64) string {
	return fmt.Sprintf("%.3f%%", max(100*(to-from)/max(t.to-t.from, 1e-9), 0.08))
}

// short keeps the end of a long name, where names of instances differ.
func short(name string) string {
	r := []rune(instance(name))
	if len(r) <= 10 {
		return string(r)
	}
	return "…" + string(r[len(r)-9:])
}

// strip draws the whole run as columns: holds that began, and how many of them were not alone. Empty if the lanes show it all.
func (t *timeline) strip() string {
	most := 0
	for _, b := range t.overview {
		most = max(most, b.holds)
	}
	if most == 0 {
		return ""
	}
	const height = 44
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" width="100%%" height="%d" role="img" aria-label="The whole run: holds over time">`, height)
	for i, bucket := range t.overview {
		if bucket.holds == 0 {
			continue
		}
		h := max(float64(height)*float64(bucket.holds)/float64(most), 1)
		met := h * float64(bucket.met) / float64(bucket.holds)
		x, width := 100*float64(i)/buckets, 100.0/buckets
		fmt.Fprintf(&b, `<g><title>from %s on: %s, %d not alone</title><rect class="hold" x="%.2f%%" y="%.1f" width="%.2f%%" height="%.1f"/>`,
			millis(float64(i)*t.length/buckets), count(bucket.holds, "hold"), bucket.met, x, height-h, width, h)
		if met > 0 {
			fmt.Fprintf(&b, `<rect class="met" x="%.2f%%" y="%.1f" width="%.2f%%" height="%.1f"/>`, x, height-met, width, met)
		}
		b.WriteString("</g>")
	}
	left, right := 100*t.from/t.length, 100*t.to/t.length
	fmt.Fprintf(&b, `<rect class="window" x="%.2f%%" y="0.5" width="%.2f%%" height="%d"><title>shown above</title></rect></svg>`, left, max(right-left, 0.3), height-1)
	return b.String()
}

// Overlaps is the number of pairs that met.
func (t *timeline) Overlaps() int64 { return int64(t.pairs) }

// Alone says what it means that nobody met.
func (t *timeline) Alone() string {
	if mustExclude(t.strategy, 0) {
		return "nobody met anybody there"
	}
	return "this strategy lets several in at once, and decides when it writes: that is no fault"
}
