package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// sales selects the requests by which customers buy: all methods of it are POST.
const sales = `method="POST",route=~"/deduct_stock.*|/v1/stock/:sku/deduct|/v1/orders.*|/v1/reservations.*"`

// failures are the problems that give the customer no answer: the request can be repeated, or its outcome is unknown.
// All other problems are answers, such as sold_out, or mistakes of the client. A test compares both lists with all
// problems.
var failures = []string{
	"backend_down", "data_lost", "internal", "lock_busy", "lock_lost", "lock_timeout", "no_capacity", "outcome_unknown",
	"overloaded", "overtaken", "second_writer", "stale_fence", "stopping", "store_full", "undecided",
}

// An objective is the share of sales that may be bad, and how bad sales are counted.
type objective struct {
	record string // beginning of the name of the recorded ratio
	budget float64
	ratio  func(window string) string // PromQL
}

// Both objectives are for all instances together.
var (
	// Of 1000 sales, 999 get an answer.
	answered = objective{"stock:sales_failed", 0.001, func(window string) string {
		return fmt.Sprintf("(sum(rate(stock_problems_total{%s,problem=~%q}[%s])) or vector(0))\n"+
			"/ sum(rate(stock_http_request_seconds_count{%s}[%s]))",
			sales, strings.Join(failures, "|"), window, sales, window)
	}}
	// Of 100 answered sales, 99 are answered within half a second, which is a boundary of the histogram.
	quick = objective{"stock:sales_slow", 0.01, func(window string) string {
		const ok = `,status=~"2..|4.."`
		return fmt.Sprintf("1 - sum(rate(stock_http_request_seconds_bucket{%s%s,le=\"0.5\"}[%s]))\n"+
			"/ sum(rate(stock_http_request_seconds_count{%s%s}[%s]))", sales, ok, window, sales, ok, window)
	}}
)

// A burn is one row of the table in chapter 5 of the SRE Workbook: the budget of 30 days is used up this many times too
// fast, over a long window and still in the short one. The short window ends the alert soon after the failure ends.
type burn struct {
	rate        float64
	long, short string
	severity    string
}

var burns = []burn{
	{14.4, "1h", "5m", page}, // 2 % of the budget in an hour
	{6, "6h", "30m", page},   // 5 % in six hours
	{1, "3d", "6h", ticket},  // 10 % in three days
}

// windows are those of burns, each once.
var windows = []string{"5m", "30m", "1h", "6h", "3d"}

func (o objective) recorded(window string) string { return o.record + ":ratio_rate" + window }

func (o objective) burning(b burn) string {
	limit := strconv.FormatFloat(b.rate, 'f', -1, 64) + " * " + strconv.FormatFloat(o.budget, 'f', -1, 64)
	return fmt.Sprintf("%s > %s\nand %s > %s", o.recorded(b.long), limit, o.recorded(b.short), limit)
}

func burnRates() []alert {
	var all []alert
	for _, b := range burns {
		limit := b.rate * answered.budget
		all = append(all, alert{
			Name: "StockSalesFailing" + b.long, Expr: answered.burning(b), Severity: b.severity,
			Runbook: "sales-failing",
			Fires:   []example{{"just above the limit", failing("backend_down", b.share(limit, 1.1, 1.1)), 60, nil}},
			Quiet: []example{
				{
					"the long window is just below the limit",
					failing("backend_down", b.share(limit, .9, 1.02)), b.minutes(), nil,
				},
				{"it has nearly ended", failing("backend_down", b.share(limit, 1.5, .9)), b.minutes(), nil},
				{"all are sold out", failing("sold_out", b.share(1, 1, 1)), 60, nil},
				{"nobody buys", []series{{sale("201"), "7x60"}, {problem("internal"), "7x60"}}, 60, nil},
			},
		})
	}
	for _, b := range burns {
		limit := b.rate * quick.budget
		all = append(all, alert{
			Name: "StockSalesSlow" + b.long, Expr: quick.burning(b), Severity: b.severity, Runbook: "sales-slow",
			Fires: []example{{"just above the limit", slow("201", b, limit, 1.1, 1.1), 60, nil}},
			Quiet: []example{
				{"the long window is just below the limit", slow("201", b, limit, .9, 1.02), b.minutes(), nil},
				{"it has nearly ended", slow("201", b, limit, 1.5, .9), b.minutes(), nil},
				{"slow, but without an answer", slow("503", b, limit, 2, 2), 60, nil},
			},
		})
	}
	return all
}

// perMinute is how many sales there are in the examples.
const perMinute = 100_000

// minutes is the length of the examples. A long window that is longer sees all of it, and the short window only its
// end.
func (b burn) minutes() int {
	if b.short == "6h" {
		return 420
	}
	return 60
}

// share is a counter of bad sales. In the long window their share is long times the limit, in the short one short times
// the limit.
func (b burn) share(limit, long, short float64) string {
	all, end := float64(b.minutes()), map[string]float64{"5m": 5, "30m": 30, "6h": 360}[b.short]
	before := math.Round((long*all - short*end) / (all - end) * limit * perMinute)
	after := math.Round(short * limit * perMinute)
	return fmt.Sprintf("0+%.0fx%.0f %.0f+%.0fx%.0f", before, all-end, before*(all-end)+after, after, end-1)
}

// failing are sales, some of them with that problem.
func failing(name, values string) []series {
	return []series{{sale("503"), fmt.Sprintf("0+%dx420", perMinute)}, {problem(name), values}}
}

// slow are sales, some of which take more than half a second. A histogram counts the others, so the shares are those of
// what is left.
func slow(status string, b burn, limit, long, short float64) []series {
	bucket := strings.Replace(strings.TrimSuffix(sale(status), "}"), "_count", "_bucket", 1) + `,le="0.5"}`
	quick := b.share(1, 1-long*limit, 1-short*limit)
	return []series{{sale(status), fmt.Sprintf("0+%dx420", perMinute)}, {bucket, quick}}
}
