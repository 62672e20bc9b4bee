package report_test

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
)

// all returns the catalogue.
func all() []lab.Scenario {
	list, err := scenario.All()
	if err != nil {
		panic(err)
	}
	return list
}

// matrix is a run beside the catalogue.
func matrix(r lab.Report) report.Matrix { return report.Matrix{Scenarios: all(), Run: r} }

// whole returns a run of the catalogue in which all is as predicted, with a timeline that has every kind of event.
func whole() lab.Report {
	r := lab.Report{Version: lab.ReportVersion, StartedAt: began, TookMS: 1000}
	for _, s := range all() {
		for _, c := range s.Cases {
			r.Cells = append(r.Cells, cell(s, c))
		}
	}
	return r
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func cell(s lab.Scenario, c lab.Case) lab.Cell {
	want := c.Want
	if want.Outcome == "" {
		want = lab.Forecast{Outcome: lab.Refuses, From: "fenced"}
	}
	store := c.Store
	if store == "" && c.Strategy != "" {
		store = "redis" // its default
	}
	return lab.Cell{
		Scenario: s.Name, Strategy: c.Strategy, Code: c.Code, Variant: c.Label.EN, Store: store,
		Predicted: want, Observed: want.Outcome, AsPredicted: true, StartedAt: began,
		Evidence: []lab.Evidence{
			{Kind: lab.Answer, Text: "A (app-7): sold, read 1, left 0, fence 900"},
			{Kind: lab.Answer, Text: "B (app-9): sold, read 1, left 0, fence 300"},
			{Kind: lab.Pair, Text: "orders of A (app-7) and B (app-9) both read version 1", Value: map[string]any{
				"orders": []map[string]string{{"request_id": "lab-x-1.A"}, {"request_id": "lab-x-1.B"}},
			}},
		},
		Events: events(),
	}
}

func at(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

// events have two holders, of which the first was frozen, and a third who is refused.
func events() []lab.CaseEvent {
	return []lab.CaseEvent{
		{At: at(0), Lane: "store", Kind: lab.Note, Text: "1 in stock"},
		{At: at(1), Lane: "app-7", Kind: lab.Sent, Who: "A", Text: "A asks app-7"},
		{
			At: at(2), Until: at(3000), Lane: "app-7", Kind: lab.Lease, Who: "A",
			Text: "A believed that it held the lock",
		},
		{
			At: at(3), Until: at(2900), Lane: "app-7", Kind: lab.Paused, Who: "A", Point: lab.BeforeWrite,
			Text: "A was paused at before_write",
		},
		{
			At: at(4), Until: at(1000), Lane: "lock", Kind: lab.Standing, Who: "A on app-7",
			Text: "the server has  as the holderA on app-7",
		},
		{
			At: at(5), Until: at(2800), Lane: "app-7", Kind: lab.Fault, Text: "app-7 was frozen <SIGSTOP>",
			ZH: "app-7 被冻结",
		},
		{
			At: at(1000), Until: at(2000), Lane: "app-9", Kind: lab.Lease, Who: "B",
			Text: "B believed that it held the lock",
		},
		{
			At: at(2000), Lane: "app-9", Kind: lab.Write, Who: "B", Text: "B read 1 and wrote 0", To: "store",
			Version: 1, Left: new(int64),
		},
		{At: at(2001), Lane: "app-9", Kind: lab.Answered, Who: "B", Text: "B: sold"},
		{At: at(2002), Lane: "app-9", Kind: lab.Refused, Who: "C", Text: "C was refused: stale_fence"},
		{At: at(2003), Lane: "redis", Kind: lab.Note, Text: "SET NX: false"},
		{At: at(2004), Lane: "redis", Kind: lab.Note, Text: "SET NX: false"},
		{
			At: at(3000), Lane: "app-7", Kind: lab.Write, Who: "A", Text: "A read 1 and wrote 0", To: "store",
			Version: 1, Left: new(int64),
		},
		{At: at(3001), Lane: "app-9", Kind: lab.Fault, Text: "app-9 is killed (SIGKILL)"},
	}
}
