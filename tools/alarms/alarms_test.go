package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/internal/words"
	"example.com/stock/tools/bench/rig"
)

// root is the folder of the service's module.
const root = "../.."

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCompress(t *testing.T) {
	for from, want := range map[string]string{
		"increase(x[15m])": "increase(x[15000ms])",
		"x offset 15m":     "x offset 15000ms",
		"    for: 1m":      "    for: 1000ms",
		"rate(x[3d])":      "rate(x[4320000ms])",
		"stock:sales_failed:ratio_rate3d > 1 * 0.001":  "stock:sales_failed:ratio_rate3d > 1 * 0.001",
		"max(stock_relay_oldest_seconds) > 300":        "max(stock_relay_oldest_seconds) > 5",
		"end_timestamp_seconds) - time() < 14 * 86400": "end_timestamp_seconds) - time() < 14 * 86400",
		`le="0.5"}[5m]`: `le="0.5"}[5000ms]`,
	} {
		if got := compress(from, 60); got != want {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}

// With the times taken out, the compressed rules are the rules, letter by letter. No time is left as it was.
func TestOnlyTimesAreCompressed(t *testing.T) {
	rules := readFile(t, "deploy/prometheus/stock.rules.yml")
	made := compress(rules, 60)
	time := regexp.MustCompile(`((?:\[|offset |for: ))\d+(?:ms|[smhd])|(_seconds\) > )[0-9.]+`)
	if got, want := time.ReplaceAllString(made, "$1$2"), time.ReplaceAllString(rules, "$1$2"); got != want {
		t.Error("more than the times has changed")
	}
	before, after := time.FindAllString(rules, -1), time.FindAllString(made, -1)
	if len(before) < 40 || len(before) != len(after) {
		t.Fatalf("%d times in the rules, %d afterwards", len(before), len(after))
	}
	for i := range before {
		if before[i] == after[i] {
			t.Errorf("%s is not compressed", before[i])
		}
	}
}

// The matrix that is checked in has the rows of the program, with the alerts that they expect and the texts of today.
// The tables in docs are made from it.
func TestTheMatrixHasEveryRow(t *testing.T) {
	var kept []result
	if err := json.Unmarshal([]byte(readFile(t, matrix)), &kept); err != nil {
		t.Fatal(err)
	}
	all, err := failures()
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != len(all) {
		t.Errorf("%d rows are kept, and there are %d", len(kept), len(all))
	}
	rules := readFile(t, "deploy/prometheus/stock.rules.yml")
	for i, f := range all[:min(len(all), len(kept))] {
		k := kept[i]
		want := slices.Sorted(slices.Values(slices.Concat(f.Fires, f.Follows)))
		played := len(want) > 0 || f.Also != ""
		if k.Name != f.Name || !slices.Equal(k.Fires, want) || !k.Resolves || len(k.Runbooks) > 0 != played {
			t.Errorf("row %d is %+v, want %s: %v: make alerts ARGS=--write", i, k, f.Name, want)
		}
		for _, name := range want {
			if !strings.Contains(rules, "  - alert: "+name+"\n") {
				t.Errorf("%s: there is no alert %s", f.Name, name)
			}
		}
	}
}

func TestTexts(t *testing.T) {
	texts, err := words.ReadTexts(files, "text")
	if err != nil {
		t.Fatal(err)
	}
	all, err := failures()
	if err != nil {
		t.Fatal(err)
	}
	for key := range texts.Under("rows") {
		name, _, _ := strings.Cut(key, ".")
		if !slices.ContainsFunc(all, func(f *failure) bool { return f.Name == name }) {
			t.Errorf("text: there is no row %s", name)
		}
	}
}

// A catalogue that lacks an alert, or whose alert fires without a reason, makes a run fail.
func TestABrokenCatalogueFails(t *testing.T) {
	if testing.Short() {
		t.Skip("long: go test ./alarms in tools")
	}
	rules := readFile(t, "deploy/prometheus/stock.rules.yml")
	program := filepath.Join(t.TempDir(), "stock")
	if err := rig.Build(t.Context(), root, program); err != nil {
		t.Fatal(err)
	}
	all, err := failures()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := choose(all, false, "instance-killed")
	if err != nil {
		t.Fatal(err)
	}
	rows[0].Most = 60
	for _, broken := range []struct{ what, from, to, want string }{
		{"as it is", "", "", ""},
		{"an alert is missing", "  - alert: StockInstanceDown", "  - alert: Renamed", "fires StockInstanceDown"},
		{
			"an alert is too wide", "max by (instance) (stock_ready) == 0", "max by (instance) (stock_ready) >= 0",
			"more fires than StockInstanceDown",
		},
		{
			"an alert does not end", `max by (instance) (up{job=~"(.+/)?stock"}) == 0`,
			`min_over_time(up{job="stock"}[3d]) == 0`, "everything is over",
		},
	} {
		if broken.from != "" && strings.Count(rules, broken.from) != 1 {
			t.Fatalf("%s: the rules do not have one %q", broken.what, broken.from)
		}
		_, err := makeAll(t.Context(), program, strings.Replace(rules, broken.from, broken.to, 1), rows, 1)
		if (err == nil) != (broken.want == "") || err != nil && !strings.Contains(err.Error(), broken.want) {
			t.Errorf("%s: %v, want %q", broken.what, err, broken.want)
		}
	}
}
