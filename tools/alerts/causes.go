package main

import "fmt"

func backend(metric, instance, name string) string {
	return fmt.Sprintf(`stock_backend_%s{instance=%q,backend=%q}`, metric, instance, name)
}

func stores() []alert {
	const lost = `stock_store_data_lost{instance="%s",store="mysql"}`
	return []alert{
		{
			Name: "StockDataLost", Severity: page, Runbook: "data-lost",
			Expr: "max by (store) (stock_store_data_lost) == 1",
			Fires: []example{{
				"one instance has noticed",
				[]series{constant(fmt.Sprintf(lost, "a"), 1), constant(fmt.Sprintf(lost, "b"), 0)},
				1, labels("store", "mysql"),
			}},
			Quiet: []example{{"the data are there", []series{constant(fmt.Sprintf(lost, "a"), 0)}, 5, nil}},
		},
		{
			Name: "StockStoreDown", For: "1m", Severity: page, Runbook: "store-down",
			Expr: `max by (backend) (stock_backend_up{backend=~"mysql|redis"}) == 0` +
				"\nunless max by (backend) (stock_backend_full) == 1",
			Fires: []example{{
				"no instance reaches it", []series{
					constant(backend("up", "a", "mysql"), 0), constant(backend("up", "b", "mysql"), 0),
					constant(backend("full", "a", "mysql"), 0), constant(backend("up", "a", "redis"), 1),
				}, 2, labels("backend", "mysql"),
			}},
			Quiet: []example{
				{
					"one instance reaches it",
					[]series{constant(backend("up", "a", "mysql"), 0), constant(backend("up", "b", "mysql"), 1)},
					5, nil,
				},
				{
					"it is full, which is another alert",
					[]series{constant(backend("up", "a", "mysql"), 0), constant(backend("full", "a", "mysql"), 1)},
					5, nil,
				},
				{"a fail-over of 30 s", []series{{backend("up", "a", "redis"), "1x10 0 1x10"}}, 12, nil},
			},
		},
		{
			Name: "StockStoreFull", Severity: page, Runbook: "store-full",
			Expr: "max by (backend) (stock_backend_full) == 1",
			Fires: []example{
				{
					"its disk is full",
					[]series{constant(backend("full", "a", "mysql"), 1)},
					1,
					labels("backend", "mysql"),
				},
			},
			Quiet: []example{
				{
					"it is down",
					[]series{constant(backend("full", "a", "mysql"), 0), constant(backend("up", "a", "mysql"), 0)},
					5, nil,
				},
			},
		},
		{
			Name: "StockSecondWriter", For: "2m", Severity: ticket, Runbook: "second-writer",
			Expr: "max by (instance, backend) (stock_backend_second_writer) == 1",
			Fires: []example{{
				"an instance at another node",
				[]series{constant(backend("second_writer", "a", "mysql"), 1)},
				3,
				labels("instance", "a", "backend", "mysql"),
			}},
			Quiet: []example{
				{"a fail-over of 7 s", []series{{backend("second_writer", "a", "mysql"), "0x5 1 0x5"}}, 6, nil},
			},
		},
		{
			Name: "StockBackendImpaired", For: "10m", Severity: ticket, Runbook: "backend-impaired",
			Expr: "max by (instance, backend) (stock_backend_impaired) == 1",
			Fires: []example{{
				"a node of a Redis Cluster is down",
				[]series{constant(backend("impaired", "a", "redis"), 1)},
				11,
				labels("instance", "a", "backend", "redis"),
			}},
			Quiet: []example{{"five minutes", []series{{backend("impaired", "a", "redis"), "0x5 1x5 0x20"}}, 12, nil}},
		},
		{
			Name: "StockOutcomeUnknown", Severity: ticket, Runbook: "outcome-unknown",
			Expr: happened(`stock_problems_total{problem="outcome_unknown"}`, "problem"),
			Fires: []example{
				{"the first", []series{born(problem("outcome_unknown"))}, 35, labels("problem", "outcome_unknown")},
				{"one more", []series{once(problem("outcome_unknown"))}, 35, labels("problem", "outcome_unknown")},
			},
			Quiet: []example{
				{"nothing was sent", []series{once(problem("backend_down"))}, 35, nil},
				{"long ago", []series{constant(problem("outcome_unknown"), 3)}, 35, nil},
			},
		},
	}
}

func lockCount(metric string) string {
	return `stock_lock_` + metric + `{instance="a",strategy="redis-watchdog"}`
}

func acquired(outcome string) string {
	return `stock_lock_acquire_total{instance="a",strategy="redis-watchdog",outcome="` + outcome + `"}`
}

func locks() []alert {
	watchdog := labels("strategy", "redis-watchdog")
	grown := func(metric string) string {
		return "sum by (strategy) (increase(stock_lock_" + metric + "[" + during + "]))"
	}
	held := func(outcome string) string {
		return `sum by (strategy) (increase(stock_lock_acquire_total{outcome="` + outcome + `"}[5m])) > 0`
	}
	return []alert{
		{
			Name: "StockLockServerDown", For: "1m", Severity: page, Runbook: "lock-server-down",
			Expr: `max by (backend) (stock_backend_up{backend=~"zookeeper|redlock"}) == 0`,
			Fires: []example{{
				"no instance reaches it",
				[]series{constant(backend("up", "a", "zookeeper"), 0), constant(backend("up", "b", "zookeeper"), 0)},
				2, labels("backend", "zookeeper"),
			}},
			Quiet: []example{{
				"one instance has no session",
				[]series{constant(backend("up", "a", "zookeeper"), 0), constant(backend("up", "b", "zookeeper"), 1)},
				5, nil,
			}},
		},
		{
			Name: "StockLockStuck", For: "5m", Severity: page, Runbook: "lock-stuck",
			Expr: held("held") + "\nunless " + held("acquired"),
			Fires: []example{{
				"all wait, nobody gets it",
				[]series{{acquired("held"), "0+5x60"}, {acquired("acquired"), "40x60"}},
				20, watchdog,
			}},
			Quiet: []example{
				{
					"many wait, one at a time gets it",
					[]series{{acquired("held"), "0+50x60"}, {acquired("acquired"), "0+1x60"}},
					20, nil,
				},
				{"nobody asks", []series{constant(acquired("held"), 9), constant(acquired("acquired"), 9)}, 20, nil},
			},
		},
		{
			Name: "StockLeaseLost", Severity: ticket, Runbook: "lease-lost",
			Expr:  grown("lost_total") + " > 0",
			Fires: []example{{"a lease", []series{once(lockCount("lost_total"))}, 35, watchdog}},
			Quiet: []example{{"long ago", []series{constant(lockCount("lost_total"), 3)}, 35, nil}},
		},
		{
			Name: "StockLockStranded", Severity: ticket, Runbook: "lock-stranded",
			Expr: grown("stranded_total") + "\n+ " + grown("abandoned_total") + " > 0",
			Fires: []example{
				{
					"a release did not arrive",
					[]series{once(lockCount("stranded_total")), constant(lockCount("abandoned_total"), 0)},
					35, watchdog,
				},
				{
					"an outcome was not known",
					[]series{constant(lockCount("stranded_total"), 0), once(lockCount("abandoned_total"))},
					35, watchdog,
				},
			},
			Quiet: []example{{
				"long ago",
				[]series{constant(lockCount("stranded_total"), 2), constant(lockCount("abandoned_total"), 2)},
				35, nil,
			}},
		},
		{
			Name: "StockFenceRefused", Severity: ticket, Runbook: "fence-refused",
			Expr: happened(`stock_problems_total{problem=~"stale_fence|overtaken"}`, "problem"),
			Fires: []example{
				{"an old fence", []series{born(problem("stale_fence"))}, 35, labels("problem", "stale_fence")},
				{"a write beside the lock", []series{once(problem("overtaken"))}, 35, labels("problem", "overtaken")},
			},
			Quiet: []example{
				{"the lock is held", []series{once(problem("lock_busy"))}, 35, nil},
				{"long ago", []series{constant(problem("stale_fence"), 3)}, 35, nil},
			},
		},
	}
}

func events() []alert {
	const oldest, parked = `stock_relay_oldest_seconds{instance="a"}`, `stock_relay_parked{instance="a"}`
	const overdue = `stock_reservations_overdue{instance="a"}`
	active := func(instance string) string { return fmt.Sprintf("stock_relay_active{instance=%q}", instance) }
	return []alert{
		{
			Name: "StockRelayBehind", For: "5m", Severity: ticket, Runbook: "relay-behind",
			Expr:  "max(stock_relay_oldest_seconds) > 300",
			Fires: []example{{"nothing is delivered", []series{constant(oldest, 330)}, 6, nil}},
			Quiet: []example{{"four minutes and a half", []series{constant(oldest, 270)}, 20, nil}},
		},
		{
			Name: "StockEventsParked", Severity: ticket, Runbook: "events-parked",
			Expr:  "max(stock_relay_parked) > 0",
			Fires: []example{{"one", []series{constant(parked, 1)}, 1, nil}},
			Quiet: []example{{"none", []series{constant(parked, 0)}, 5, nil}},
		},
		{
			Name: "StockReservationsOverdue", For: "5m", Severity: ticket, Runbook: "reservation-never-ends",
			Expr:  "max(stock_reservations_overdue) > 0",
			Fires: []example{{"one", []series{constant(overdue, 1)}, 6, nil}},
			Quiet: []example{{"for a moment", []series{{overdue, "0x10 1x3 0x10"}}, 14, nil}},
		},
		{
			Name: "StockNoRelay", For: "2m", Severity: ticket, Runbook: "no-relay",
			Expr: "sum(stock_relay_active) == 0",
			Fires: []example{
				{"all wait for the lock", []series{constant(active("a"), 0), constant(active("b"), 0)}, 3, nil},
			},
			Quiet: []example{
				{"one of two", []series{constant(active("a"), 1), constant(active("b"), 0)}, 5, nil},
				{"no relay is wanted", []series{constant(ready("a"), 1)}, 5, nil},
			},
		},
	}
}

// credentials are the alerts about certificates and keys, which end at a time that is known before.
func credentials() []alert {
	const (
		certificate = `stock_certificate_end_timestamp_seconds{instance="a",setting="tls.cert"}`
		keys        = `stock_token_keys_read_timestamp_seconds{instance="a"}`
		day         = 24 * 60 * 60
	)
	ends := func(days int) string {
		const end = "min by (instance, setting) (stock_certificate_end_timestamp_seconds)"
		return fmt.Sprintf("%s - time() < %d * 86400", end, days)
	}
	until := labels("instance", "a", "setting", "tls.cert")
	// The examples begin at the Unix time 0.
	return []alert{
		{
			Name: "StockCertificateEnds14d", Expr: ends(14), Severity: ticket, Runbook: "certificate",
			Fires: []example{{"in less than 14 days", []series{constant(certificate, 14*day)}, 10, until}},
			Quiet: []example{{"in more than 14 days", []series{constant(certificate, 14*day+3600)}, 10, nil}},
		},
		{
			Name: "StockCertificateEnds2d", Expr: ends(2), Severity: page, Runbook: "certificate",
			Fires: []example{
				{"in less than 2 days", []series{constant(certificate, 2*day)}, 10, until},
				{"it has ended", []series{constant(certificate, 60)}, 10, until},
			},
			Quiet: []example{{"in more than 2 days", []series{constant(certificate, 2*day+3600)}, 10, nil}},
		},
		{
			Name: "StockTokenKeysNotRead", Severity: ticket, Runbook: "token-keys",
			Expr: "time() - min by (instance) (stock_token_keys_read_timestamp_seconds) > 1800",
			Fires: []example{
				{"the issuer is down", []series{constant(keys, 600)}, 41, labels("instance", "a")},
				{"they were never read", []series{constant(keys, 0)}, 31, labels("instance", "a")},
			},
			Quiet: []example{
				{"half an hour ago", []series{constant(keys, 600)}, 40, nil},
				{"read every five minutes", []series{{keys, "0 0 0 0 0 300 300 300 300 300 600"}}, 10, nil},
			},
		},
	}
}
