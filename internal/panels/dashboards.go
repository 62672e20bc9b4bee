package panels

// The selectors that several expressions need.
const (
	// saleRoutes are those by which customers buy, as in the rules of Prometheus; a test compares them.
	saleRoutes  = "/deduct_stock.*|/v1/stock/:sku/deduct|/v1/orders.*|/v1/reservations.*"
	orderRoutes = "/v1/orders.*|/v1/reservations.*"

	job       = "(.+/)?" + Job
	requests  = "stock_http_request_seconds"
	byProblem = "stock_problems_total"
)

// ofSales restricts an expression to the requests by which customers buy.
func (e Expr) ofSales() Expr { return e.with("method", "POST").with("route", saleRoutes) }

// ofOrders restricts an expression to orders and reservations.
func (e Expr) ofOrders() Expr { return e.with("method", "POST").with("route", orderRoutes) }

func answersUp() Expr { return most("up", "instance").with("job", job) }
func ready() Expr     { return most("stock_ready", "instance") }

func requestRate(by ...string) Expr { return rate(requests+"_count", by...) }
func saleRate(by ...string) Expr    { return requestRate(by...).ofSales() }

// failedSales is the share of sales whose status is 5xx: the customer has no answer.
func failedSales() Expr {
	return rate(requests+"_count").ofSales().with("status", "5..").orZero().dividedBy(saleRate())
}

func saleTime(q float64) Expr        { return quantile(q, requests).ofSales() }
func routeTime(q float64) Expr       { return quantile(q, requests, "route") }
func refusals() Expr                 { return rate(byProblem, "problem").orZero() }
func refused() Expr                  { return sum(byProblem, "problem").orZero() }
func backendUp() Expr                { return least("stock_backend_up", "backend") }
func backendMost(metric string) Expr { return most("stock_backend_"+metric, "backend") }
func dataLost() Expr                 { return most("stock_store_data_lost", "store") }
func queues() Expr                   { return sum("stock_store_operations", "store", "state") }
func logDropped() Expr               { return sum("stock_log_dropped_total", "instance") }
func versions() Expr                 { return count("stock_build_info", "version") }
func processRate(metric string) Expr { return rate(metric, "instance").with("job", job) }
func process(metric string) Expr     { return most(metric, "instance").with("job", job) }
func one(e Expr) []Query             { return []Query{{Expr: e}} }
func percentiles(of func(float64) Expr) []Query {
	return []Query{{of(.5), "p50"}, {of(.99), "p99"}}
}

// service is the dashboard of the instances and their servers.
func service() Dashboard {
	return Dashboard{"service", []Panel{
		{"instances-up", Yes, BelowOne, one(answersUp())},
		{"instances-ready", Yes, BelowOne, one(ready())},
		{"sales", PerSecond, Never, one(saleRate("status"))},
		{"sale-time", Seconds, Never, percentiles(saleTime)},
		{"failed-sales", Share, AboveZero, one(failedSales())},
		{"refusals", PerSecond, Never, one(refusals())},
		{"requests", PerSecond, Never, one(requestRate("route"))},
		{"route-time", Seconds, Never, percentiles(routeTime)},
		{"backend-up", Yes, BelowOne, one(backendUp())},
		{"backend-trouble", Yes, AboveZero, []Query{
			{backendMost("full"), "full"},
			{backendMost("impaired"), "impaired"},
			{backendMost("second_writer"), "second writer"},
		}},
		{"data-lost", Yes, AboveZero, one(dataLost())},
		{"queues", Number, Never, one(queues())},
		{"requests-by-instance", PerSecond, Never, one(requestRate("instance"))},
		{"cpu", Number, Never, one(processRate("process_cpu_seconds_total"))},
		{"memory", Bytes, Never, one(process("process_resident_memory_bytes"))},
		{"goroutines", Number, Never, one(process("go_goroutines"))},
		{"log-dropped", Number, AboveZero, one(logDropped())},
		{"versions", Number, Never, one(versions())},
	}}
}

const acquisitions = "stock_lock_acquire_total"

func acquired() Expr {
	return rate(acquisitions, "strategy").with("outcome", "acquired").orZero()
}

func notAcquired(by ...string) Expr {
	return rate(acquisitions, by...).without("outcome", "acquired").orZero()
}

func waitTime(q float64) Expr { return quantile(q, "stock_lock_wait_seconds", "strategy") }
func holdTime(q float64) Expr { return quantile(q, "stock_lock_hold_seconds", "strategy") }

// waiting and holding are the numbers of waiters and of holders, on average: seconds per second.
func waiting() Expr { return rate("stock_lock_wait_seconds_sum", "strategy") }
func holding() Expr { return rate("stock_lock_hold_seconds_sum", "strategy") }

// sinceStart is a counter of something rare. As a rate it would be a small fraction that nobody can read.
func sinceStart(metric string) Expr { return sum("stock_"+metric+"_total", "strategy") }

func deductions() Expr {
	return rate("stock_deductions_total", "strategy").with("outcome", "accepted").orZero()
}

func notDeducted() Expr {
	return rate("stock_deductions_total", "strategy", "outcome").without("outcome", "accepted").orZero()
}

// locks is the dashboard of the strategies and their locks.
func locks() Dashboard {
	return Dashboard{"locks", []Panel{
		{"acquired", PerSecond, Never, one(acquired())},
		{"not-acquired", PerSecond, Never, one(notAcquired("strategy", "outcome"))},
		{"wait-time", Seconds, Never, percentiles(waitTime)},
		{"hold-time", Seconds, Never, percentiles(holdTime)},
		{"waiting", Number, Never, one(waiting())},
		{"holding", Number, Never, one(holding())},
		{"lost", Number, AboveZero, one(sinceStart("lock_lost"))},
		{"stranded", Number, AboveZero, one(sinceStart("lock_stranded"))},
		{"abandoned", Number, AboveZero, one(sinceStart("lock_abandoned"))},
		{"stale-fences", Number, AboveZero, one(sinceStart("stale_fence"))},
		{"wakeups", PerSecond, Never, one(rate("stock_lock_wakeups_total", "strategy"))},
		{"deductions", PerSecond, Never, one(deductions())},
		{"not-deducted", PerSecond, Never, one(notDeducted())},
	}}
}

func orderTime(q float64) Expr { return quantile(q, requests, "route").ofOrders() }

// unknownOutcomes are those of which nobody can say yet whether the units are sold.
func unknownOutcomes() Expr {
	return sum(byProblem, "problem").with("problem", "outcome_unknown|undecided").orZero()
}

func relay(metric string) Expr     { return sum("stock_relay_" + metric) }
func relayRate(metric string) Expr { return rate("stock_relay_" + metric + "_total") }
func relayOldest() Expr            { return most("stock_relay_oldest_seconds") }

// orders is the dashboard of orders, reservations and the relay of their events.
func orders() Dashboard {
	return Dashboard{"orders", []Panel{
		{"orders", PerSecond, Never, one(requestRate("route", "status").ofOrders())},
		{"order-time", Seconds, Never, percentiles(orderTime)},
		{"order-refusals", PerSecond, Never, one(rate(byProblem, "problem").ofOrders().orZero())},
		{"unknown-outcomes", Number, AboveZero, one(unknownOutcomes())},
		{"reservations-overdue", Number, AboveZero, one(most("stock_reservations_overdue"))},
		{"relay-active", Number, BelowOne, one(relay("active"))},
		{"relay-delivered", PerSecond, Never, one(relayRate("delivered"))},
		{"relay-failed", PerSecond, AboveZero, one(relayRate("failed"))},
		{"relay-undelivered", Number, Never, one(relay("undelivered"))},
		{"relay-oldest", Seconds, Never, one(relayOldest())},
		{"relay-parked", Number, AboveZero, one(relay("parked"))},
	}}
}
