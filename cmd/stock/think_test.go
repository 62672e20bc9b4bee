package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// Under --think each sale holds its lock for so long, the command in the history says so, and an instance that is not
// in lab mode, or whose token is another, is named before anything is sold.
func TestLoadThinks(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	lab := cluster.serve(t, 1, "STOCK_LAB=true")
	const think = 20 * time.Millisecond
	path := filepath.Join(t.TempDir(), "run.jsonl")
	_, errs, err := run(t.Context(), "load", "--url", lab.apps[0].URL, "--admin-token", demoToken, "-s", "redis-setnx",
		"-n", "3", "-c", "1", "--think", think.String(), "--sku", "load-think", "--history", path)
	if err != nil {
		t.Fatal(err, errs)
	}
	h, err := loadtest.ReadHistory(strings.NewReader(content(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	if h.Header.Plan.Think != think || !strings.Contains(h.Header.Command, "--think 20ms") {
		t.Errorf("%v %s", h.Header.Plan.Think, h.Header.Command)
	}
	for _, r := range h.Records {
		if r.Receipt == nil || r.ReleasedAt.Sub(r.AcquiredAt) < think {
			t.Errorf("%s, %+v", r.Outcome, r.Receipt)
		}
	}
	plain := cluster.serve(t, 1)
	_, _, err = run(t.Context(), "load", "--url", plain.apps[0].URL, "--admin-token", demoToken, "-s", "none",
		"--think", "5ms", "--sku", "load-no-think")
	says(t, err, "lets no sale think: 400")
	says(t, err, "STOCK_LAB=true")
}
