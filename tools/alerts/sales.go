package main

import (
	"fmt"
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
	for i, b := range burns {
		a := alert{
			Name: "StockSalesFailing" + b.long, Expr: answered.burning(b), Severity: b.severity, Runbook: "sales-failing",
		}
		// Of 10,000 sales a minute: above the limit, just below it, and, for the short window, above it until a while ago.
		above, below := []int{200, 100, 20}[i], []int{130, 50, 8}[i]
		a.Fires = []example{{"too many without an answer", failing("backend_down", fmt.Sprintf("0+%dx60", above)), 60, nil}}
		a.Quiet = []example{
			{"just below the limit", failing("backend_down", fmt.Sprintf("0+%dx60", below)), 60, nil},
			{"all are sold out", failing("sold_out", "0+10000x60"), 60, nil},
			{"nobody buys", []series{{sale("201"), "7x60"}, {problem("internal"), "7x60"}}, 60, nil},
		}
		if b.short != "6h" {
			ended := fmt.Sprintf("0+%dx20 %dx40", above, above*20)
			a.Quiet = append(a.Quiet, example{"it has ended", failing("backend_down", ended), 60, nil})
		}
		all = append(all, a)
	}
	for i, b := range burns {
		a := alert{Name: "StockSalesSlow" + b.long, Expr: quick.burning(b), Severity: b.severity}
		above, below := []int{2000, 1000, 150}[i], []int{1300, 500, 80}[i]
		a.Fires = []example{{"too many are slow", slow("201", above), 60, nil}}
		a.Quiet = []example{
			{"just below the limit", slow("201", below), 60, nil},
			{"slow, but without an answer", slow("503", above), 60, nil},
		}
		all = append(all, a)
	}
	return all
}

// failing has 10,000 sales a minute, with that problem in some of them.
func failing(name, values string) []series {
	return []series{{sale("503"), "0+10000x60"}, {problem(name), values}}
}

// slow has 10,000 sales a minute, n of which take more than half a second.
func slow(status string, n int) []series {
	bucket := strings.Replace(strings.TrimSuffix(sale(status), "}"), "_count", "_bucket", 1) + `,le="0.5"}`
	return []series{{sale(status), "0+10000x60"}, {bucket, fmt.Sprintf("0+%dx60", 10000-n)}}
}
