package loadtest

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// An Expectation is a threshold for a run, and whether the run met it.
type Expectation struct {
	Text   string     `json:"text"`   // as it was given: "p99<50ms"
	Actual words.Text `json:"actual"` // with its unit, or "not known"
	Value  float64    `json:"value"`  // the same as a number: milliseconds, percent, requests per second, or a count
	Met    bool       `json:"met"`    // false also if the value is unknown
}

// A Threshold is an Expectation before the run. ParseThreshold makes one.
type Threshold struct {
	figure  *figure
	op      string
	percent bool    // of the requests
	bound   float64 // in the unit of the figure
	text    string
}

// operators lists the comparisons. An operator precedes its own prefixes.
func operators() []string { return []string{"==", "!=", "<=", ">=", "<", ">"} }

// ParseThreshold parses a figure, a comparison and a bound, such as "oversold==0", "busy<5%", "p99<50ms" or
// "rate>=1000". Blanks between them are allowed. The error for an unknown figure lists the known ones.
func ParseThreshold(text string) (Threshold, error) {
	bad := func(key string, pairs ...any) (Threshold, error) {
		return Threshold{}, fmt.Errorf("%q: %w", text, phrases.Error("threshold."+key, pairs...))
	}
	at := strings.IndexAny(text, "=!<>")
	if at < 0 {
		return bad("no-comparison", "operators", strings.Join(operators(), " "), "figures", figureNames())
	}
	t := Threshold{text: text}
	name, rest := strings.TrimSpace(text[:at]), text[at:]
	if t.figure = findFigure(name); t.figure == nil {
		return bad("no-figure", "name", strconv.Quote(name), "figures", figureNames())
	}
	for _, op := range operators() {
		if bound, ok := strings.CutPrefix(rest, op); ok {
			t.op, rest = op, strings.TrimSpace(bound)
			break
		}
	}
	if t.op == "" {
		return bad("not-comparison", "given", strconv.Quote(rest[:1]), "operators", strings.Join(operators(), " "))
	}
	if percent, ok := strings.CutSuffix(rest, "%"); ok {
		if !t.figure.requests {
			return bad("no-share", "name", name)
		}
		t.percent, rest = true, strings.TrimSpace(percent)
	}
	var err error
	if t.bound, err = t.figure.unit.parse(rest); err != nil {
		return Threshold{}, fmt.Errorf("%q: %w", text, err)
	}
	return t, nil
}

// String returns the threshold without blanks, in the form that ParseThreshold reads.
func (t Threshold) String() string {
	sign := ""
	if t.percent {
		sign = "%"
	}
	return t.figure.name + t.op + t.figure.unit.exact(t.bound) + sign
}

// Check reports whether r meets the threshold. With incomplete evidence the true count of damage may be larger than the
// known one. Then a threshold counts as met only if further damage could not change that.
func (t Threshold) Check(r *Result) Expectation {
	value, known := t.figure.value(r)
	e := Expectation{Text: t.text, Actual: say("actual.unknown"), Value: value}
	if t.percent {
		planned := len(r.Records) + r.Dropped
		known = known && planned > 0
		e.Value = 100 * value / float64(max(planned, 1))
	}
	if !known {
		e.Value = 0
		return e
	}
	e.Actual = words.Same(t.figure.unit.show(e.Value))
	if t.percent {
		e.Actual = words.Same(fmt.Sprintf("%.2f%%", e.Value))
	}
	e.Met = t.compare(e.Value)
	if t.figure.damage && !r.complete() {
		e.Actual = say("actual.at-least", "actual", e.Actual)
		e.Met = e.Value > t.bound && (t.op == ">" || t.op == ">=" || t.op == "!=") || e.Value == t.bound && t.op == ">="
	}
	return e
}

func (t Threshold) compare(value float64) bool {
	switch t.op {
	case "==":
		return value == t.bound
	case "!=":
		return value != t.bound
	case "<":
		return value < t.bound
	case "<=":
		return value <= t.bound
	case ">":
		return value > t.bound
	default:
		return value >= t.bound
	}
}

// complete reports whether the evidence about every SKU is complete. For a target that lists no orders, the replies are
// all the evidence.
func (r *Result) complete() bool {
	for i := range r.Accounts {
		a := &r.Accounts[i]
		byReplies := a.Before.Unlisted && a.After != nil && r.Verdict.Unknown == 0
		if !a.Complete && !byReplies {
			return false
		}
	}
	return len(r.Accounts) > 0
}

// seen reports whether every accepted reply reports what the sale read, without which collisions cannot be counted.
func (r *Result) seen() bool {
	for i := range r.Records {
		if r.Records[i].Receipt != nil && r.Records[i].Blind {
			return false
		}
	}
	return true
}

// A figure is a number of a run that a Threshold can name.
type figure struct {
	name     string
	unit     unit
	requests bool                                        // counts requests, so a percentage makes sense
	damage   bool                                        // counts damage, which may exceed the known count
	value    func(r *Result) (value float64, known bool) // known is false without any evidence
}

// figures returns all figures, in the order in which errors list them.
func figures() []figure {
	requests := func(name string, of func(*Result) int) figure {
		return figure{
			name:     name,
			requests: true,
			value:    func(r *Result) (float64, bool) { return float64(of(r)), true },
		}
	}
	damage := func(name string, of func(*Verdict) int64) figure {
		return figure{
			name:   name,
			damage: true,
			value:  func(r *Result) (float64, bool) { return float64(of(&r.Verdict)), true },
		}
	}
	latency := func(name string, of func(*Quantiles) float64) figure {
		return figure{name: name, unit: timed, value: func(r *Result) (float64, bool) {
			return of(&r.Latency.All), r.Latency.All.Count > 0
		}}
	}
	accepted := func(name string, of func(*Quantiles) float64) figure {
		return figure{name: name, unit: timed, value: func(r *Result) (float64, bool) {
			q := r.Latency.Accepted()
			return of(&q), q.Count > 0
		}}
	}
	complete := func(name string, of func(*Verdict) int) figure {
		return figure{
			name:   name,
			damage: true,
			value:  func(r *Result) (float64, bool) { return float64(of(&r.Verdict)), r.seen() },
		}
	}
	return []figure{
		damage("oversold", func(v *Verdict) int64 { return v.OversoldUnits }),
		{
			name:   "lost_updates",
			damage: true,
			value:  func(r *Result) (float64, bool) { return float64(r.Verdict.LostUnits), r.Verdict.Known },
		},
		complete("collisions", func(v *Verdict) int { return v.Collisions }),
		complete("stale_reads", func(v *Verdict) int { return v.StaleReads }),
		damage("false_sold_out", func(v *Verdict) int64 { return int64(v.FalseSoldOut) }),
		damage("fence_drops", func(v *Verdict) int64 { return int64(v.FenceDrops) }),
		damage("phantoms", func(v *Verdict) int64 { return int64(v.Phantoms) }),
		damage("denied", func(v *Verdict) int64 { return int64(v.Denied) }),
		damage("duplicates", func(v *Verdict) int64 { return int64(v.Duplicates) }),
		{
			name:  "remaining",
			value: func(r *Result) (float64, bool) { return float64(r.Verdict.RemainingUnits), r.Verdict.Known },
		},
		requests("sent", func(r *Result) int { return r.Verdict.Sent }),
		requests("accepted", func(r *Result) int { return r.Verdict.Accepted }),
		requests("busy", func(r *Result) int { return r.Verdict.Busy }),
		requests("sold_out", func(r *Result) int { return r.Verdict.SoldOut }),
		requests("failed", func(r *Result) int { return r.Verdict.Failed }),
		requests("unknown", func(r *Result) int { return r.Verdict.Unknown }),
		requests("late", func(r *Result) int { return r.Latency.Late }),
		requests("dropped", func(r *Result) int { return r.Dropped }),
		latency("mean", func(q *Quantiles) float64 { return q.Mean }),
		latency("p50", func(q *Quantiles) float64 { return q.P50 }),
		latency("p90", func(q *Quantiles) float64 { return q.P90 }),
		latency("p95", func(q *Quantiles) float64 { return q.P95 }),
		latency("p99", func(q *Quantiles) float64 { return q.P99 }),
		latency("p99.9", func(q *Quantiles) float64 { return q.P999 }),
		latency("max", func(q *Quantiles) float64 { return q.Max }),
		{
			name:  "sold_rate",
			unit:  rated,
			value: func(r *Result) (float64, bool) { return r.Latency.Sold, r.Latency.All.Count > 0 },
		},
		accepted("sold_p50", func(q *Quantiles) float64 { return q.P50 }),
		accepted("sold_p99", func(q *Quantiles) float64 { return q.P99 }),
		{
			name:  "rate",
			unit:  rated,
			value: func(r *Result) (float64, bool) { return r.Latency.Rate, r.Latency.All.Count > 0 },
		},
		{name: "linearizable", unit: decided, value: func(r *Result) (float64, bool) {
			result := r.Verdict.Linear.Result
			if result == InOrder {
				return 1, true
			}
			return 0, result == Illegal
		}},
	}
}

func findFigure(name string) *figure {
	for _, f := range figures() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func figureNames() string {
	var list []string
	for _, f := range figures() {
		list = append(list, f.name)
	}
	return strings.Join(list, ", ")
}

// A unit is the unit of a figure.
type unit int

const (
	counted unit = iota
	timed        // in milliseconds
	rated        // per second
	decided      // 1 is true, 0 is false
)

func (u unit) parse(text string) (float64, error) {
	switch u {
	case timed:
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, phrases.Error("threshold.not-time", "given", strconv.Quote(text))
		}
		return float64(d) / float64(time.Millisecond), nil
	case decided:
		if text == "true" {
			return 1, nil
		}
		if text == "false" {
			return 0, nil
		}
		return 0, phrases.Error("threshold.not-bool", "given", strconv.Quote(text))
	case rated:
		text = strings.TrimSuffix(text, "/s")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, phrases.Error("threshold.not-number", "given", strconv.Quote(text))
	}
	return f, nil
}

// exact formats value in the form that parse reads.
func (u unit) exact(value float64) string {
	switch u {
	case timed:
		return time.Duration(math.Round(value * float64(time.Millisecond))).String()
	case decided:
		return strconv.FormatBool(value != 0)
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

func (u unit) show(value float64) string {
	switch u {
	case timed:
		return Millis(value)
	case rated:
		return fmt.Sprintf("%.1f/s", value)
	case decided:
		return strconv.FormatBool(value != 0)
	}
	return strconv.FormatFloat(value, 'f', -1, 64)
}

// Millis formats milliseconds with three digits and the unit: 0.12ms, 1.23ms, 12.3ms, 123ms, 1.23s.
func Millis(ms float64) string {
	switch a := math.Abs(ms); {
	case a < 9.995:
		return fmt.Sprintf("%.2fms", ms)
	case a < 99.95:
		return fmt.Sprintf("%.1fms", ms)
	case a < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	case a < 9995:
		return fmt.Sprintf("%.2fs", ms/1000)
	}
	return fmt.Sprintf("%.1fs", ms/1000)
}
