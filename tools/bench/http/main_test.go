package main

import (
	"strings"
	"testing"
)

func TestWrksFigures(t *testing.T) {
	const text = `Running 1s test @ http://127.0.0.1:1/
  2 threads and 4 connections
  Latency Distribution
     50%  812.00us
     99%    1.55ms
  12345 requests in 1.02s, 834.86KB read
  Socket errors: connect 1, read 2, write 0, timeout 4
  Non-2xx or 3xx responses: 45
Requests/sec:  12102.94
`
	l, err := parseWrk(text)
	if want := (load{requests: 12345, refused: 45, broken: 7, seconds: 1.02, p99: 1.55}); err != nil || l != want {
		t.Errorf("%+v, %v; want %+v", l, err, want)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("an error of wrk was taken for figures")
	}
}

// A ratio is taken within a round, and against the ping of the same side.
func TestRatiosAreThoseOfARound(t *testing.T) {
	r := results{settings: settings{connections: []int{30}, rounds: 3}}
	for round, rate := range []float64{100, 200, 1000} {
		for _, m := range []measurement{
			{row: "ping", rate: rate},
			{row: "atomic/redis", rate: rate / 2},
			{row: "ping @beside", rate: 10},
			{row: "atomic/redis @beside", rate: 1},
		} {
			m.round, m.connections = round, 30
			r.all = append(r.all, m)
		}
	}
	table := r.table()
	for _, want := range []string{
		"| atomic/redis, 30 | 100 | 0.50 (0.50 to 0.50) |", "| atomic/redis @beside, 30 | 1 | 0.10 (0.10 to 0.10) |",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		{"--rows", "atomic/oracle"}, {"--connections", "0"}, {"--connections", "x"}, {"--rounds", "0"},
	} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), args[0]) {
			t.Errorf("%v: %v", args, err)
		}
	}
}
