package main

import (
	"fmt"

	"example.com/stock/internal/words"
)

// Severities. A page wakes somebody up. A ticket is for the next working day.
const (
	page   = "page"
	ticket = "ticket"
)

// An alert is one row of the catalogue. Its texts are in the folder text, by its name.
type alert struct {
	Name     string
	Expr     string // PromQL
	For      string // how long the condition must last; empty: no time
	Severity string
	Runbook  string // name of the file in docs/runbooks, without .md; empty: none yet

	Summary, Condition, Customers words.Text

	Fires []example // at least one
	Quiet []example // at least one: close to the limit, or something similar that is no alarm
}

// An example is what Prometheus has scraped, a sample a minute, and at which minute to look.
type example struct {
	What   string // in the tests
	Series []series
	Minute int
	Labels map[string]string // those of the alert that fires, besides severity
}

// series has values in the notation of promtool: "0+1x9" is 0, 1, ... 9.
type series struct{ Name, Values string }

// catalogue returns all alerts: those about sales first, then those about causes.
func catalogue() []alert {
	all := append(burnRates(), instances()...)
	all = append(all, stores()...)
	all = append(all, locks()...)
	all = append(all, events()...)
	return append(all, credentials()...)
}

// during is the time after which an alert about something that happened once ends, if it does not happen again.
const during = "15m"

// happened is true for the time during after a counter has grown. increase alone would miss the first event of a
// series that did not exist before it, because increase needs a sample from before the event.
func happened(counter, by string) string {
	return fmt.Sprintf("sum by (%s) (increase(%s[%s])) > 0\nor\nsum by (%s) (%s unless %s offset %s) > 0",
		by, counter, during, by, counter, counter, during)
}

// constant is a series that keeps its value for an hour.
func constant(name string, value int) series { return series{name, fmt.Sprintf("%dx60", value)} }

// once is a counter that grows from 0 by one after half an hour.
func once(name string) series { return series{name, "0x30 1x30"} }

// born is a counter that appears after half an hour, with the first event.
func born(name string) series { return series{name, "_x30 1x30"} }

func instances() []alert {
	const dropped = `stock_log_dropped_total{instance="a"}`
	orders := labels("route", "/v1/orders", "method", "POST")
	// refused are a hundred requests a minute, n of them refused.
	refused := func(name string, n int) []series {
		return []series{{problem(name), fmt.Sprintf("0+%dx60", n)}, {sale("429"), "0+100x60"}}
	}
	return []alert{
		{
			Name: "StockNoInstanceReady", For: "1m", Severity: page, Runbook: "no-instance-ready",
			Expr: "(sum(stock_ready) or vector(0)) == 0",
			Fires: []example{
				{"none is ready", []series{constant(ready("a"), 0), constant(ready("b"), 0)}, 5, nil},
				{"none is scraped", []series{{`up{job="stock",instance="a"}`, "0x60"}}, 5, nil},
			},
			Quiet: []example{
				{"one of two is ready", []series{constant(ready("a"), 0), constant(ready("b"), 1)}, 5, nil},
			},
		},
		{
			Name: "StockInstanceNotReady", For: "5m", Severity: ticket, Runbook: "instance-not-ready",
			Expr:  "max by (instance) (stock_ready) == 0",
			Fires: []example{{"not ready for long", []series{constant(ready("a"), 0)}, 6, labels("instance", "a")}},
			Quiet: []example{
				{"a restart", []series{{ready("a"), "1x10 0x3 1x10"}}, 14, nil},
			},
		},
		{
			Name: "StockInstanceDown", For: "2m", Severity: ticket, Runbook: "instance-down",
			// A PodMonitor makes the job "namespace/stock" of its own name.
			Expr: `max by (instance) (up{job=~"(.+/)?stock"}) == 0`,
			Fires: []example{
				{"no reply", []series{constant(up("a"), 0)}, 3, labels("instance", "a")},
				{
					"no reply in Kubernetes",
					[]series{constant(`up{job="shop/stock",instance="a"}`, 0)},
					3,
					labels("instance", "a"),
				},
			},
			Quiet: []example{
				{"one scrape failed", []series{{up("a"), "1x10 0 1x10"}}, 12, nil},
				{"a target of another job", []series{constant(`up{job="node",instance="a"}`, 0)}, 5, nil},
			},
		},
		{
			Name: "StockInternalError", Severity: ticket, Runbook: "internal-error",
			Expr: happened(`stock_problems_total{problem="internal"}`, "route, method"),
			Fires: []example{
				{"the first", []series{born(problem("internal"))}, 35, orders},
				{"one more", []series{{problem("internal"), "7x30 8x30"}}, 35, orders},
			},
			Quiet: []example{
				{"long ago", []series{{problem("internal"), "7x60"}}, 50, nil},
				{"sold out", []series{once(problem("sold_out"))}, 35, nil},
			},
		},
		{
			Name: "StockOverloaded", For: "5m", Severity: ticket, Runbook: "overloaded",
			Expr: `sum(rate(stock_problems_total{problem=~"overloaded|no_capacity"}[5m]))` +
				"\n/ sum(rate(stock_http_request_seconds_count[5m])) > 0.05",
			Fires: []example{
				{"six of a hundred are refused", refused("overloaded", 6), 30, nil},
			},
			Quiet: []example{
				{"four of a hundred", refused("overloaded", 4), 30, nil},
				{"a customer asks too often", refused("rate_limited", 50), 30, nil},
			},
		},
		{
			Name: "StockLogDropped", Severity: ticket, Runbook: "log-dropped",
			Expr:  "sum by (instance) (increase(stock_log_dropped_total[" + during + "])) > 0",
			Fires: []example{{"lines", []series{once(dropped)}, 35, labels("instance", "a")}},
			Quiet: []example{{"long ago", []series{constant(dropped, 9)}, 35, nil}},
		},
	}
}

func labels(pairs ...string) map[string]string {
	m := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// Names of series.

func ready(instance string) string {
	return fmt.Sprintf(`stock_ready{job="stock",instance=%q}`, instance)
}

func up(instance string) string { return fmt.Sprintf(`up{job="stock",instance=%q}`, instance) }

func problem(name string) string {
	return fmt.Sprintf(`stock_problems_total{instance="a",route="/v1/orders",method="POST",problem=%q}`, name)
}

func sale(status string) string {
	const name = `stock_http_request_seconds_count{instance="a",route="/v1/orders",method="POST",status=%q}`
	return fmt.Sprintf(name, status)
}
