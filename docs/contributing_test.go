package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An example is one thing that somebody once added: every file in which its name stands must be in the row of
// CONTRIBUTING.md about such things, and every file in the row must contain the name.
type example struct {
	name string   // a regular expression
	in   []string // folders and files that are searched
}

// examples has one for each row of the table "Where do I change ...", by the row's first cell.
var examples = map[string]example{
	"an endpoint": {
		`cancelOrder\b|CancelOrder\b|orders/[:{](order_)?id\}?/cancel|v1/orders/" \+ .*/cancel"`,
		[]string{"service/order", "handler", "docs/orders.md", "docs/orders.zh-CN.md", "loadtest/checkout"},
	},
	"an error, its English and its Chinese": {
		`limit_reached|\bErrLimit\b`,
		[]string{
			"service", "repo", "handler", "app", "docs/orders.md", "docs/orders.zh-CN.md", "loadtest/checkout",
		},
	},
	"a setting": {
		`relay\.attempts|Relay\.Attempts|\n +attempts:`,
		[]string{"app", "cmd", "service", "handler", "docs/events.md", "docs/events.zh-CN.md"},
	},
	"a field of an order": {
		`\.Late\b|\bLate +bool|\bLate:|"late"|\n +late +TINYINT`,
		[]string{
			"service/order", "repo/ledger", "repo/migrations", "handler", "docs/orders.md", "docs/orders.zh-CN.md",
			"loadtest/checkout",
		},
	},
	"a server": {
		`(?i)zookeeper[.:]|strategy\.ZooKeeper\b|\bZooKeeper +(=|\*|struct)|zookeeper-not-configured|\.ZooKeeper\)`,
		[]string{"app", "service", "repo", "handler", "docker-compose.yml", "deploy/deps"},
	},
	"how long idempotency keys are kept": {
		`keep_keys|KeepKeys?\b`, []string{"app", "service", "repo", "handler", "cmd/stock", "internal/starter"},
	},
	"a strategy": {
		`mysqlGetLock\b|mysql-get-lock|NewGetLock\b`, []string{"lock", "service", "repo", "handler"},
	},
	"a scenario of the fault lab": {
		`holderFrozenPastLease\b|holder-frozen-past-lease`,
		[]string{"lab/scenario", "lab/report", "docs/notes.yaml"},
	},
	"a metric to alert on": {
		`relay_parked|relay_oldest_seconds|\.Parked\b|"parked"`,
		[]string{"app", "docs/events.md", "docs/events.zh-CN.md"},
	},
}

// TestWhereDoIChange compares the table of CONTRIBUTING.md with the files in which an example of each row stands.
func TestWhereDoIChange(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "## Where do I change ...")
	if !found {
		t.Fatal("CONTRIBUTING.md has no table of what to change")
	}
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	rows := make(map[string][]string)
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "## ") {
			break
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "---") || strings.TrimSpace(cells[1]) == "to change" {
			continue
		}
		name := strings.TrimSpace(cells[1])
		rows[name] = []string{}
		for _, m := range link.FindAllStringSubmatch(cells[2], -1) {
			rows[name] = append(rows[name], m[1])
		}
	}
	if got, want := slices.Sorted(maps.Keys(rows)), slices.Sorted(maps.Keys(examples)); !slices.Equal(got, want) {
		t.Fatalf("rows %q, examples %q", got, want)
	}
	for name, files := range rows {
		want := examples[name].files(t)
		for _, f := range want {
			if !slices.Contains(files, f) {
				t.Errorf("%s: %s is not in the row", name, f)
			}
		}
		for _, f := range files {
			if !slices.Contains(want, f) {
				t.Errorf("%s: %s is in the row, and the example is not in it", name, f)
			}
		}
	}
}

// files returns the files in which the example stands, tests aside.
func (e example) files(t *testing.T) (list []string) {
	t.Helper()
	name := regexp.MustCompile(e.name)
	for _, in := range e.in {
		err := filepath.WalkDir(filepath.Join("..", in), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if strings.Contains(d.Name(), "_test.go") ||
				strings.Contains(path, "testdata") || strings.Contains(path, "clienttest") ||
				filepath.Ext(path) == ".tmpl" && in != "internal/starter" {
				return nil
			}
			text, err := os.ReadFile(path)
			if err == nil && name.Match(text) {
				list = append(list, strings.TrimPrefix(filepath.ToSlash(path), "../"))
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	return list
}
