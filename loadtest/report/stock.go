package report

import (
	"cmp"
	"slices"
	"sort"

	"example.com/stock/loadtest"
)

// A moment is the stock after or at an event.
type moment struct{ ms, units float64 }

// A course is the stock of one SKU over time.
type course struct {
	sku      string
	read     []moment // what requests read, when they read it
	written  []moment // what they wrote, when they wrote it
	truth    []moment // the initial stock less the units sold so far
	others   int      // number of SKUs not shown
	parts    bool     // reads and writes are of a segment or not reported, so only the truth is known
	first    float64
	last     *float64  // the final stock in the store; nil: unknown
	commands []float64 // starts of the commands of the run
}

// A sale is the effect of one order.
type sale struct {
	readAt, wroteAt                     float64
	quantity, read, remaining, segments int64
	told                                bool
}

// follow computes the course of the SKU that lost most or, if none lost, sold most.
func follow(r *loadtest.Result, s *story) *course {
	bySKU := make(map[string][]sale)
	known := make(map[string]*loadtest.Record)
	for i := range r.Records {
		if rec := &r.Records[i]; rec.Receipt != nil {
			known[rec.OrderID] = rec
		}
	}
	c := &course{others: max(len(r.Accounts)-1, 0), commands: startsOf(r.Ran, s.start)}
	var chosen *loadtest.Account
	worst := int64(-1)
	for i := range r.Accounts {
		a := &r.Accounts[i]
		sales := salesOf(r, a, s, known)
		bySKU[a.Before.SKU] = sales
		var sold, lost int64
		for _, sale := range sales {
			sold += sale.quantity
		}
		if a.After != nil {
			lost = max(sold-(a.Before.Quantity-a.After.Quantity), 0)
		}
		if weight := lost<<32 + sold; weight > worst {
			worst, chosen = weight, a
		}
	}
	if chosen == nil {
		return c
	}
	c.sku, c.first = chosen.Before.SKU, float64(chosen.Before.Quantity)
	if chosen.After != nil && chosen.After.Epoch == chosen.Before.Epoch {
		c.last = new(float64(chosen.After.Quantity))
	}
	c.trace(bySKU[c.sku], s.length)
	return c
}

// salesOf returns the orders of a, and the receipts of replies if the orders could not be read.
func salesOf(r *loadtest.Result, a *loadtest.Account, s *story, known map[string]*loadtest.Record) []sale {
	var list []sale
	add := func(rec *loadtest.Record, o *loadtest.Order) {
		x := sale{
			quantity:  o.Quantity,
			read:      o.Read,
			remaining: o.Remaining,
			segments:  int64(o.Segment),
			told:      o.Segment == 0 && !o.Blind,
		}
		x.readAt, x.wroteAt = s.ms(o.CreatedAt), s.ms(o.CreatedAt)
		if rec != nil {
			x.readAt, x.wroteAt = s.ms(rec.SentAt), s.ms(rec.DoneAt)
			if !rec.AcquiredAt.IsZero() {
				x.readAt, x.wroteAt = s.ms(rec.AcquiredAt), s.ms(rec.ReleasedAt)
			}
			if !rec.ReadAt.IsZero() && !rec.WrittenAt.Before(rec.ReadAt) {
				x.readAt, x.wroteAt = s.ms(rec.ReadAt), s.ms(rec.WrittenAt)
			}
			x.told = x.told && !rec.Blind
		}
		list = append(list, x)
	}
	seen := make(map[string]bool, len(a.Orders))
	for i := range a.Orders {
		o := &a.Orders[i]
		if o.Epoch != a.Before.Epoch || seen[o.OrderID] {
			continue
		}
		seen[o.OrderID] = true
		if rec := known[o.OrderID]; rec != nil || !o.CreatedAt.IsZero() {
			add(rec, o)
		}
	}
	for i := range r.Records {
		rec := &r.Records[i]
		if rec.Receipt != nil && rec.SKU == a.Before.SKU && !seen[rec.OrderID] {
			add(rec,
				&loadtest.Order{Quantity: rec.Quantity, Read: rec.Read, Remaining: rec.Remaining, Segment: rec.Segment})
		}
	}
	return list
}

func (c *course) trace(sales []sale, end float64) {
	slices.SortFunc(sales, func(a, b sale) int { return cmp.Compare(a.wroteAt, b.wroteAt) })
	left := c.first
	c.truth, c.written = []moment{{0, left}}, []moment{{0, left}}
	for _, x := range sales {
		left -= float64(x.quantity)
		c.truth = append(c.truth, moment{x.wroteAt, left})
		if !x.told {
			c.parts = true
			continue
		}
		c.written = append(c.written, moment{x.wroteAt, float64(x.remaining)})
		c.read = append(c.read, moment{x.readAt, float64(x.read)})
	}
	slices.SortFunc(c.read, func(a, b moment) int { return cmp.Compare(a.ms, b.ms) })
	c.truth = append(c.truth, moment{max(end, c.truth[len(c.truth)-1].ms), left})
	if c.parts {
		c.read, c.written = nil, nil
		return
	}
	last := c.written[len(c.written)-1]
	c.written = append(c.written, moment{max(end, last.ms), last.units})
}

// thin reduces a line to the places along it. Of each place it keeps the first, the lowest, the highest and the last
// point.
func thin(line []moment) []moment {
	if len(line) <= 4*places {
		return line
	}
	from, span := line[0].ms, max(line[len(line)-1].ms-line[0].ms, 1e-9)
	at := func(m moment) int { return int((m.ms - from) / span * float64(places)) }
	var kept []moment
	for i := 0; i < len(line); {
		j, low, high := i, i, i
		for ; j < len(line) && at(line[j]) == at(line[i]); j++ {
			if line[j].units < line[low].units {
				low = j
			}
			if line[j].units > line[high].units {
				high = j
			}
		}
		indexes := []int{i, low, high, j - 1}
		slices.Sort(indexes)
		for _, k := range slices.Compact(indexes) {
			kept = append(kept, line[k])
		}
		i = j
	}
	return kept
}

// at returns the height of a line at ms: that of the last point before.
func level(line []moment, ms float64) float64 {
	i := sort.Search(len(line), func(i int) bool { return line[i].ms > ms })
	return line[max(i-1, 0)].units
}

// hints returns, for each range of the run, the stock at its end.
func (c *course) hints(v voice) []hint {
	return hintsOf(c.truth, func(to float64) string {
		truth := level(c.truth, to)
		text := v.say("hint.truth", "at", millis(to), "initial", c.first, "truth", truth)
		if len(c.written) > 0 {
			written := level(c.written, to)
			text += v.say("hint.written", "written", written)
			if gap := written - truth; gap > 0 {
				text += "\n" + v.say("hint.gap", "gap", gap)
			}
		}
		return text
	})
}

// hintsOf returns the hints for some ranges of the time of a line. text is called with the end of each.
func hintsOf(line []moment, text func(to float64) string) (list []hint) {
	const n = 60
	end := line[len(line)-1].ms
	for i := range n {
		from, to := end*float64(i)/n, end*float64(i+1)/n
		list = append(list, hint{from, to, text(to)})
	}
	return list
}

// gaps reports whether the store differs from the truth at the end of the run. Earlier differences do not count,
// because replies to two orders may arrive in another order than the writes.
func (c *course) gaps() bool {
	return len(c.written) > 0 && c.written[len(c.written)-1].units != c.truth[len(c.truth)-1].units
}
