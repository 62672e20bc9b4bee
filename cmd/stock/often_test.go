package main

import (
	"flag"
	"testing"

	"example.com/stock/loadtest"
)

var often = flag.Bool("often", false, "run TestRaceOften in full: ten runs of what races, a hundred of what excludes")

// Without a lock updates are lost in every run of ten; with what promises exclusion in none of a hundred.
func TestRaceOften(t *testing.T) {
	unsafe, safe := 2, 2
	if *often {
		unsafe, safe = 10, 100
	}
	c := startCluster(t, 3)
	client := c.client(t, 30)
	catalogue, err := client.Strategies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogue {
		for _, store := range s.Stores {
			runs := safe
			if s.Promise.Scope != loadtest.Cluster {
				runs = unsafe
			}
			raced, sold := 0, 0
			for range runs {
				result, err := loadtest.Run(t.Context(), client, loadtest.Plan{
					Strategy: s.Name, Store: store, Stock: 100, Requests: 150, Concurrency: 30,
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if result.Verdict.RaceSeen {
					raced++
				}
				sold += result.Verdict.Accepted
			}
			t.Logf("%-16s %-6s %3d runs, %5d sold, updates lost in %d runs", s.Name, store, runs, sold, raced)
			switch s.Promise.Scope {
			case loadtest.Cluster:
				if raced > 0 {
					t.Errorf("%s on %s lost updates in %d of %d runs", s.Name, store, raced, runs)
				}
			case loadtest.Nowhere:
				if raced == 0 || *often && raced < runs {
					t.Errorf("%s on %s lost updates in %d of %d runs only", s.Name, store, raced, runs)
				}
			}
		}
	}
}
