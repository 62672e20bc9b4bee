package loadtest

import (
	"fmt"
	"strings"
)

// An Expectation is a threshold that a run was to meet, and whether it did.
type Expectation struct {
	Text   string  `json:"text"`   // as it was given: "p99<50ms"
	Actual string  `json:"actual"` // with its unit; "not known" if it is not
	Value  float64 `json:"value"`  // the same as a number: milliseconds, percent, requests per second, or a count
	Met    bool    `json:"met"`    // false also if it is not known
}

// A Threshold is an Expectation before the run. Make it by ParseThreshold.
type Threshold struct {
	figure  *figure
	op      string
	percent bool    // of the requests
	bound   float64 // in the unit of the figure
	text    string
}

// operators, those that begin like another first.
func operators() []string { return []string{"==", "!=", "<=", ">=", "<", ">"} }

// ParseThreshold reads a figure, a comparison and a bound, such as "oversold==0", "busy<5%", "p99<50ms" or "rate>=1000". Blanks between
// them are allowed. The error for a figure that does not exist lists those that do.
func ParseThreshold(text string) (Threshold, error) {
	bad := func(format string, args ...any) (Threshold, error) {
		return Threshold{}, fmt.Errorf("%q: "+format, append([]any{text}, args...)...)
	}
	at := strings.IndexAny(text, "=!<>")
	if at < 0 {
		return bad("has no comparison; it is a figure, one of %s, and a bound, as in p99<50ms; the figures are %s", strings.Join(operators(), " "), figureNames())
	}
	t := Threshold{text: text}
	name, rest := strings.TrimSpace(text[:at]), text[at:]
	if t.figure = findFigure(name); t.figure == nil {
		return bad("there is no figure %q; there are %s", name, figureNames())
	}
	for _, op := range operators() {
		if bound, ok := strings.CutPrefix(rest, op); ok {
			t.op, rest = op, strings.TrimSpace(bound)
			break
		}
	}
	if t.op == "" {
		return bad("%q is no comparison; there are %s", rest[:1], strings.Join(operators(), " "))
	}
	if percent, ok := strings.CutSuffix(rest, "%"); ok {
		if !t.figure.requests {
			return bad("%s is not a share of the requests, so it cannot be compared with a percentage", name)
		}
		t.percent, rest = true, strings.TrimSpace(percent)
	}
	var err error
	if t.bound, err = t.figure.unit.parse(rest); err != nil {
		return bad("%w", err)
	}
	return t, nil
}

// String is the threshold without blanks; ParseThreshold reads it as the same.
func (t Threshold) String() string {
	sign := ""
	if t.percent {
		sign = "%"
	}
	return t.figure.name + t.op + t.figure.unit.exact(t.bound) + sign
}

// Check says whether r meets the threshold. Where the evidence is incomplete, a count of damage may be larger than what is
// known of it, so only what more damage could not change is met.
func (t Threshold) Check(r *Result) Expectation {
	value, known := t.figure.value(r)
	e := Expectation{Text: t.text, Actual: "not known", Value: value}
	if t.percent {
		planned := len(r.Records) + r.Dropped
		known = known && planned > 0
		e.Value = 100 * value / float64(max(planned, 1))
	}
	if !known {
		e.Value = 0
		return e
	}
	e.Actual = t.figure.unit.show(e.Value)
	if t.percent {
		e.Actual = fmt.Sprintf("%.2f%%", e.Value)
	}
	e.Met = t.compare(e.Value)
	if t.figure.damage && !r.complete() {
		e.Actual = "at least " + e.Actual + ", the evidence is incomplete"
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

// complete reports whether all is known of all SKUs. Of a target that lists no orders the replies are all there is to know.
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

// seen reports whether all accepted replies tell what they read. Without that nobody can count who collided.
func (r *Result) seen() bool {
	for i := range r.Records {
		if r.Records[i].Receipt != nil && r.Records[i].Blind {
			return false
		}
	}
	return true
}
