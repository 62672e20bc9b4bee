package report

import (
	"fmt"
	"html"
	"strings"
)

// A batch has the data of one batch of sales from its replies. Times are milliseconds since the start of the run.
type batch struct {
	from, to float64
	size     int // refused sales included
	sold     int // accepted sales with a reply
}

// A block is the box of a batch around the bars of its sales. They are in adjacent lanes, because a batch is of one
// instance.
type block struct {
	*batch
	instance    string
	top, bottom int // lanes
	drawn       int // bars
}

// gather collects the batches of the run.
func (s *story) gather() {
	s.batches = make(map[string]*batch)
	for i := range s.holds {
		h := &s.holds[i]
		if h.rec.Batch == nil {
			continue
		}
		b := s.batches[h.rec.Batch.ID]
		if b == nil {
			b = &batch{from: h.from, to: h.to, size: h.rec.Batch.Size}
			s.batches[h.rec.Batch.ID] = b
		}
		b.from, b.to, b.sold = min(b.from, h.from), max(b.to, h.to), b.sold+1
	}
}

// Batches returns the number of batches in which something was sold.
func (t *timeline) Batches() (n int) { return len(t.batches) }

// sameBatch reports whether both are sales of one batch, which is one hold of the lock.
func (h *hold) sameBatch(other *hold) bool {
	return h.rec.Batch != nil && other.rec.Batch != nil && h.rec.Batch.ID == other.rec.Batch.ID
}

// blocks returns the batches of the bars that are drawn, in the order of their first bars.
func (t *timeline) blocks() []block {
	var list []block
	at := make(map[string]int)
	for i := range t.bars {
		bar := &t.bars[i]
		if bar.rec.Batch == nil {
			continue
		}
		id := bar.rec.Batch.ID
		n, known := at[id]
		if !known {
			n, at[id] = len(list), len(list)
			list = append(list, block{
				batch: t.batches[id], instance: bar.rec.Instance, top: bar.lane, bottom: bar.lane,
			})
		}
		b := &list[n]
		b.top, b.bottom, b.drawn = min(b.top, bar.lane), max(b.bottom, bar.lane), b.drawn+1
	}
	return list
}

// title returns the block's tooltip.
func (b *block) title(v voice) string {
	text := v.say("block.title", "n", b.size, "instance", instance(b.instance), "took", millis(b.to-b.from),
		"from", millis(b.from), "sold", b.sold)
	if b.drawn < b.sold {
		text += v.say("block.drawn", "n", b.drawn)
	}
	return text
}

// block draws a batch behind its bars.
func (t *timeline) block(b *strings.Builder, k *block) {
	top := t.y(k.top) - 2
	fmt.Fprintf(b, `<g><title>%s</title><rect class="batch" x="%s" y="%d" width="%s" height="%d"/></g>`,
		html.EscapeString(k.title(t.voice)), t.x(k.from), top, t.width(k.from, k.to), t.y(k.bottom)+barHeight+2-top)
}
