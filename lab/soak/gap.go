package soak

import (
	"cmp"
	"slices"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// An attempt is what the time without sales is computed from.
type attempt struct {
	sent, done            time.Time
	sold, failed, unknown bool
	lost                  bool   // sold, and the store has no order of it
	problem               string // of one that failed
}

// attemptsOf returns the attempts of a lane.
func attemptsOf(result *loadtest.Result) (list []attempt) {
	orders := make(map[string]bool)
	for _, a := range result.Accounts {
		for i := range a.Orders {
			orders[a.Orders[i].OrderID] = true
		}
	}
	for i := range result.Records {
		r := &result.Records[i]
		a := attempt{
			sent: r.SentAt, done: r.DoneAt, sold: r.Outcome == loadtest.Accepted,
			failed: r.Outcome == loadtest.Failed, unknown: r.Outcome == loadtest.Unknown,
			problem: cmp.Or(r.Problem, r.Error),
		}
		a.lost = a.sold && !orders[r.OrderID]
		list = append(list, a)
	}
	return list
}

// visits returns the attempts of the shop's customers. What was refused for good reason is no failure, and no sale. A
// lost order is the judge's to find.
func visits(records []checkout.Record) (list []attempt) {
	for i := range records {
		r := &records[i]
		list = append(list, attempt{
			sent: r.SentAt, done: r.DoneAt, sold: r.Outcome == checkout.Done,
			failed: r.Outcome == checkout.Busy && r.Status >= 500, unknown: r.Outcome == checkout.Unknown,
			problem: cmp.Or(r.Problem, r.Error),
		})
	}
	return list
}

// during returns what happened between two moments: the longest time between two sales of which a part is in it, and
// the attempts that were sent in it.
func during(list []attempt, from, to time.Time) (g Gap) {
	g.Problems = make(map[string]int)
	var sales []time.Time
	for _, a := range list {
		if a.sold {
			sales = append(sales, a.done)
		}
		if a.sent.Before(from) || !a.sent.Before(to) {
			continue
		}
		g.Requests++
		switch {
		case a.failed:
			g.Failed++
			g.Problems[a.problem]++
		case a.unknown:
			g.Unknown++
			g.Problems[a.problem]++
		case a.lost:
			g.Lost++
		}
	}
	slices.SortFunc(sales, time.Time.Compare)
	for i := 1; i < len(sales); i++ {
		if before, after := sales[i-1], sales[i]; after.After(from) && before.Before(to) {
			g.LongestMS = max(g.LongestMS, ms(after.Sub(before)))
		}
	}
	return g
}
