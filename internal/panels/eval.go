package panels

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Sample is a value of an expression.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Eval evaluates the expression on what two scrapes of each instance found, as Prometheus does with a window that
// begins and ends with a scrape. It differs in one point: a counter that did not exist at the first scrape was 0 then,
// where Prometheus does not count its first event. Without a first scrape of an instance, its growth is unknown, and
// left out.
func (e Expr) Eval(pairs []Pair) []Sample {
	found := e.aggregated(pairs)
	if e.over == nil {
		return found
	}
	over := make(map[string]float64)
	for _, s := range e.over.Eval(pairs) {
		over[key(s.Labels)] = s.Value
	}
	var shares []Sample
	for _, s := range found {
		if divisor, there := over[key(s.Labels)]; there {
			shares = append(shares, Sample{s.Labels, s.Value / divisor})
		}
	}
	return shares
}

func (e Expr) aggregated(pairs []Pair) []Sample {
	groups := make(map[string]*group)
	for _, pair := range pairs {
		for _, s := range pair.Now.series[e.metric] {
			if !e.matches(s.labels) {
				continue
			}
			value := s.value
			if e.rate {
				seconds := pair.Now.At.Sub(pair.Before.At).Seconds()
				if pair.Before.At.IsZero() || seconds <= 0 {
					continue
				}
				before := pair.Before.values[e.metric+s.key]
				if before > value { // the instance has started anew
					before = 0
				}
				value = (value - before) / seconds
			}
			labels := make(map[string]string)
			for _, name := range e.by {
				if s.labels[name] != "" {
					labels[name] = s.labels[name]
				}
			}
			at := key(labels)
			if groups[at] == nil {
				groups[at] = &group{labels: labels, buckets: make(map[float64]float64)}
			}
			groups[at].add(value, s.labels["le"])
		}
	}
	var found []Sample
	for _, at := range slices.Sorted(maps.Keys(groups)) {
		found = append(found, Sample{groups[at].labels, groups[at].value(e)})
	}
	if len(found) == 0 && e.zero && len(count("stock_ready").aggregated(pairs)) > 0 {
		labels := make(map[string]string)
		for _, name := range e.by {
			labels[name] = none
		}
		return []Sample{{labels, 0}}
	}
	return found
}

// A group is the series that an aggregate makes one of.
type group struct {
	labels          map[string]string
	n               int
	sum, least, top float64
	buckets         map[float64]float64 // by the upper bound
}

func (g *group) add(value float64, le string) {
	if g.n == 0 {
		g.least, g.top = value, value
	}
	g.n++
	g.sum += value
	g.least, g.top = min(g.least, value), max(g.top, value)
	if bound, err := strconv.ParseFloat(le, 64); err == nil {
		g.buckets[bound] += value
	}
}

func (g *group) value(e Expr) float64 {
	switch {
	case e.quantile > 0:
		return ofBuckets(e.quantile, g.buckets)
	case e.aggregate == "max":
		return g.top
	case e.aggregate == "min":
		return g.least
	case e.aggregate == "count":
		return float64(g.n)
	}
	return g.sum
}

// ofBuckets returns the quantile of a histogram by the rule of Prometheus: linear within a bucket, which for the first
// begins at 0, and the largest finite bound if the quantile is above it. NaN: nothing was counted.
func ofBuckets(q float64, buckets map[float64]float64) float64 {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) < 2 || !math.IsInf(bounds[len(bounds)-1], 1) || buckets[math.Inf(1)] <= 0 {
		return math.NaN()
	}
	rank := q * buckets[math.Inf(1)]
	start, below := 0.0, 0.0
	for _, bound := range bounds {
		if math.IsInf(bound, 1) {
			break
		}
		if upTo := buckets[bound]; upTo >= rank {
			return start + (bound-start)*(rank-below)/(upTo-below)
		}
		start, below = bound, buckets[bound]
	}
	return start
}

// key returns labels as a text that is the same for the same labels.
func key(labels map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		b.WriteString(name + "=" + strconv.Quote(labels[name]) + ",")
	}
	return b.String()
}
