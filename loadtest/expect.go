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
		if t.figure.kind != ofRequests {
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

// Check reports whether r meets the threshold. With incomplete evidence the true count of damage may be larger than the
// known one. Then a threshold counts as met only if further damage could not change that.
func (t Threshold) Check(r *Result) Expectation {
	e := Expectation{Text: t.text, Actual: say("actual.unknown")}
	planned := len(r.Records) + r.Dropped
	if !t.figure.known(r) || t.percent && planned == 0 {
		return e
	}
	e.Value = t.figure.value(r)
	if t.percent {
		e.Value = 100 * e.Value / float64(planned)
	}
	e.Actual = words.Same(t.figure.unit.show(e.Value))
	if t.percent {
		e.Actual = words.Same(fmt.Sprintf("%.2f%%", e.Value))
	}
	e.Met = t.compare(e.Value)
	if t.figure.kind == ofDamage && !r.complete() {
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
	name  string
	unit  unit
	kind  kind
	known func(r *Result) bool // whether there is any evidence of it
	value func(r *Result) float64
}

// A kind says what more a figure means than a number.
type kind int

const (
	number     kind = iota // nothing more
	ofRequests             // it counts requests, so a percentage makes sense
	ofDamage               // it counts damage, which may exceed the known count
)

// figures returns all figures, in the order in which errors list them.
func figures() []figure {
	always := func(*Result) bool { return true }
	stock := func(r *Result) bool { return r.Verdict.Known }
	replies := func(r *Result) bool { return r.Latency.All.Count > 0 }
	sales := func(r *Result) bool { return r.Latency.Accepted().Count > 0 }
	order := func(r *Result) bool {
		return r.Verdict.Linear.Result == InOrder || r.Verdict.Linear.Result == Illegal
	}
	return []figure{
		{"oversold", counted, ofDamage, always, func(r *Result) float64 { return float64(r.Verdict.OversoldUnits) }},
		{"lost_updates", counted, ofDamage, stock, func(r *Result) float64 { return float64(r.Verdict.LostUnits) }},
		{"collisions", counted, ofDamage, (*Result).seen, func(r *Result) float64 {
			return float64(r.Verdict.Collisions)
		}},
		{"stale_reads", counted, ofDamage, (*Result).seen, func(r *Result) float64 {
			return float64(r.Verdict.StaleReads)
		}},
		{"false_sold_out", counted, ofDamage, always, func(r *Result) float64 {
			return float64(r.Verdict.FalseSoldOut)
		}},
		{"fence_drops", counted, ofDamage, always, func(r *Result) float64 { return float64(r.Verdict.FenceDrops) }},
		{"phantoms", counted, ofDamage, always, func(r *Result) float64 { return float64(r.Verdict.Phantoms) }},
		{"denied", counted, ofDamage, always, func(r *Result) float64 { return float64(r.Verdict.Denied) }},
		{"duplicates", counted, ofDamage, always, func(r *Result) float64 { return float64(r.Verdict.Duplicates) }},
		{"remaining", counted, number, stock, func(r *Result) float64 { return float64(r.Verdict.RemainingUnits) }},
		{"sent", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.Sent) }},
		{"accepted", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.Accepted) }},
		{"busy", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.Busy) }},
		{"sold_out", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.SoldOut) }},
		{"failed", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.Failed) }},
		{"unknown", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Verdict.Unknown) }},
		{"late", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Latency.Late) }},
		{"dropped", counted, ofRequests, always, func(r *Result) float64 { return float64(r.Dropped) }},
		{"mean", timed, number, replies, func(r *Result) float64 { return r.Latency.All.Mean }},
		{"p50", timed, number, replies, func(r *Result) float64 { return r.Latency.All.P50 }},
		{"p90", timed, number, replies, func(r *Result) float64 { return r.Latency.All.P90 }},
		{"p95", timed, number, replies, func(r *Result) float64 { return r.Latency.All.P95 }},
		{"p99", timed, number, replies, func(r *Result) float64 { return r.Latency.All.P99 }},
		{"p99.9", timed, number, replies, func(r *Result) float64 { return r.Latency.All.P999 }},
		{"max", timed, number, replies, func(r *Result) float64 { return r.Latency.All.Max }},
		{"sold_rate", rated, number, replies, func(r *Result) float64 { return r.Latency.Sold }},
		{"sold_p50", timed, number, sales, func(r *Result) float64 { return r.Latency.Accepted().P50 }},
		{"sold_p99", timed, number, sales, func(r *Result) float64 { return r.Latency.Accepted().P99 }},
		{"rate", rated, number, replies, func(r *Result) float64 { return r.Latency.Rate }},
		{"linearizable", decided, number, order, func(r *Result) float64 {
			if r.Verdict.Linear.Result == InOrder {
				return 1
			}
			return 0
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
