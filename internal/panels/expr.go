package panels

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An Expr is a PromQL expression of the few kinds that the panels need: an aggregate of a metric, or of its growth per
// second; a quantile of a histogram; and a quotient of two of them.
type Expr struct {
	aggregate string // sum, max, min or count
	metric    string
	where     []condition
	by        []string
	rate      bool
	quantile  float64 // of a histogram's growth; 0: none
	over      *Expr
	zero      bool
}

// A condition on a label. Only the operators =~ and !~ are needed.
type condition struct {
	label   string
	pattern string
	whole   *regexp.Regexp // the pattern, as it matches a whole value
	not     bool
}

func newCondition(label, pattern string, not bool) condition {
	return condition{label, pattern, regexp.MustCompile("^(?:" + pattern + ")$"), not} // of the catalogue, and tested
}

func sum(metric string, by ...string) Expr { return Expr{aggregate: "sum", metric: metric, by: by} }

func most(metric string, by ...string) Expr { return Expr{aggregate: "max", metric: metric, by: by} }

func least(metric string, by ...string) Expr { return Expr{aggregate: "min", metric: metric, by: by} }

func count(metric string, by ...string) Expr { return Expr{aggregate: "count", metric: metric, by: by} }

// rate sums the growth per second of a counter.
func rate(metric string, by ...string) Expr {
	e := sum(metric, by...)
	e.rate = true
	return e
}

// quantile is that of what a histogram has counted in the window.
func quantile(q float64, histogram string, by ...string) Expr {
	e := rate(histogram+"_bucket", by...)
	e.quantile = q
	return e
}

func (e Expr) with(label, pattern string) Expr {
	e.where = append(slices.Clone(e.where), newCondition(label, pattern, false))
	return e
}

func (e Expr) without(label, pattern string) Expr {
	e.where = append(slices.Clone(e.where), newCondition(label, pattern, true))
	return e
}

func (e Expr) dividedBy(over Expr) Expr {
	e.over = &over
	return e
}

// orZero adds a 0 if no series exists yet, because a counter with labels exists only since its first event. Without
// a scraped instance there is no 0 either: then nobody knows.
func (e Expr) orZero() Expr {
	e.zero = true
	return e
}

// none is the value of the labels of a 0 that orZero has added. No strategy, problem or outcome has this name.
const none = "-"

// PromQL returns the expression with a window such as 1m, or $__rate_interval.
func (e Expr) PromQL(window string) string {
	selector := e.metric
	var conditions []string
	for _, c := range e.where {
		operator := "=~"
		if c.not {
			operator = "!~"
		}
		conditions = append(conditions, c.label+operator+strconv.Quote(c.pattern))
	}
	if len(conditions) > 0 {
		selector += "{" + strings.Join(conditions, ",") + "}"
	}
	if e.rate {
		selector = "rate(" + selector + "[" + window + "])"
	}
	by := e.by
	if e.quantile > 0 {
		by = append([]string{"le"}, by...)
	}
	text := e.aggregate + "(" + selector + ")"
	if len(by) > 0 {
		text = e.aggregate + " by (" + strings.Join(by, ", ") + ") (" + selector + ")"
	}
	if e.quantile > 0 {
		text = fmt.Sprintf("histogram_quantile(%v, %s)", e.quantile, text)
	}
	if e.zero {
		zero := "0 * count(stock_ready)"
		for _, label := range e.by {
			zero = fmt.Sprintf(`label_replace(%s, %q, %q, "", "")`, zero, label, none)
		}
		text = "(" + text + " or on () " + zero + ")"
	}
	if e.over != nil {
		text += " / " + e.over.PromQL(window)
	}
	return text
}

// matches reports whether labels fulfil the conditions.
func (e Expr) matches(labels map[string]string) bool {
	return !slices.ContainsFunc(e.where, func(c condition) bool {
		return c.whole.MatchString(labels[c.label]) == c.not
	})
}
