package panels

// Tables returns the tables of stock watch. Their expressions are those of the dashboards.
func Tables() []Table {
	return []Table{
		{Key: "sales", Columns: []Column{
			{"sales", PerSecond, Never, saleRate()},
			{"p50", Seconds, Never, saleTime(.5)},
			{"p99", Seconds, Never, saleTime(.99)},
			{"failed", Share, AboveZero, failedSales()},
			{"requests", PerSecond, Never, requestRate()},
		}},
		{Key: "instances", By: "instance", Columns: []Column{
			{"up", Yes, BelowOne, answersUp()},
			{"ready", Yes, BelowOne, ready()},
			{"requests", PerSecond, Never, requestRate("instance")},
			{"cpu", Number, Never, processRate("process_cpu_seconds_total")},
			{"memory", Bytes, Never, process("process_resident_memory_bytes")},
			{"log-dropped", Number, AboveZero, logDropped()},
		}},
		{Key: "backends", By: "backend", Columns: []Column{
			{"up", Yes, BelowOne, backendUp()},
			{"full", Yes, AboveZero, backendMost("full")},
			{"impaired", Yes, AboveZero, backendMost("impaired")},
			{"second-writer", Yes, AboveZero, backendMost("second_writer")},
		}},
		{Key: "stores", By: "store", Columns: []Column{
			{"data-lost", Yes, AboveZero, dataLost()},
			{"in", Number, Never, sum("stock_store_operations", "store").with("state", "in")},
			{"waiting", Number, Never, sum("stock_store_operations", "store").with("state", "waiting")},
		}},
		{Key: "routes", By: "route", Busy: true, Columns: []Column{
			{"requests", PerSecond, Never, requestRate("route")},
			{"p50", Seconds, Never, routeTime(.5)},
			{"p99", Seconds, Never, routeTime(.99)},
		}},
		{Key: "refusals", By: "problem", Busy: true, Columns: []Column{
			{"rate", PerSecond, Never, refusals()},
			{"since-start", Number, Never, refused()},
		}},
		{Key: "locks", By: "strategy", Busy: true, Columns: []Column{
			{"acquired", PerSecond, Never, acquired()},
			{"not-acquired", PerSecond, Never, notAcquired("strategy")},
			{"wait-p50", Seconds, Never, waitTime(.5)},
			{"wait-p99", Seconds, Never, waitTime(.99)},
			{"hold-p99", Seconds, Never, holdTime(.99)},
			{"lost", Number, AboveZero, sinceStart("lock_lost")},
			{"stranded", Number, AboveZero, sinceStart("lock_stranded")},
			{"abandoned", Number, AboveZero, sinceStart("lock_abandoned")},
		}},
		{Key: "relay", Columns: []Column{
			{"active", Number, BelowOne, relay("active")},
			{"delivered", PerSecond, Never, relayRate("delivered")},
			{"relay-failed", PerSecond, AboveZero, relayRate("failed")},
			{"undelivered", Number, Never, relay("undelivered")},
			{"oldest", Seconds, Never, relayOldest()},
			{"parked", Number, AboveZero, relay("parked")},
		}},
	}
}
