package main

//lint:file-ignore SA1019 Grafana 11 does not know the dashboards of package dashboardv2.

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"

	"example.com/stock/internal/panels"
)

// root is the folder of the service's module.
const root = "../.."

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	made, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range made {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != string(want) {
			t.Errorf("%s is out of date (%v): cd tools && go run ./dashboards", name, err)
		}
	}
	kept, err := filepath.Glob(filepath.Join(root, "deploy/grafana/dashboards/*/*.json"))
	if err != nil || len(kept) != len(made)-len(guides) {
		t.Errorf("%d files are generated, and there are %d (%v): %q", len(made)-len(guides), len(kept), err, kept)
	}
}

// No panel covers another one. The files have the form of Grafana's schema, because its own types have written them.
func TestPanelsHaveTheirPlaces(t *testing.T) {
	made, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	uids := make(map[string]string)
	for name, text := range made {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		var page dashboard.Dashboard
		if err := json.Unmarshal(text, &page); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other := uids[*page.Uid]; other != "" || len(*page.Uid) > 40 {
			t.Errorf("%s has the uid %q, as %s has", name, *page.Uid, other)
		}
		uids[*page.Uid] = name
		places, ids := make(map[dashboard.GridPos]bool), make(map[uint32]bool)
		for _, p := range page.Panels {
			at := *p.Panel.GridPos
			if places[at] || ids[*p.Panel.Id] || at.X%width != 0 || at.Y%height != 0 || at.X+at.W > 24 {
				t.Errorf("%s: panel %d, at %+v, has the place or the id of another one", name, *p.Panel.Id, at)
			}
			places[at], ids[*p.Panel.Id] = true, true
			if *p.Panel.Title == "" || *p.Panel.Description == "" || len(p.Panel.Targets) == 0 {
				t.Errorf("%s: panel %d has no title, no description or no query", name, *p.Panel.Id)
			}
		}
	}
}

// A sale is the same for the dashboards and for the alerts.
func TestSalesAreThoseOfTheRules(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(root, "deploy/prometheus/stock.rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range panels.Tables() {
		if table.Key != "sales" {
			continue
		}
		text := table.Columns[0].Expr.PromQL("5m")
		_, after, found := strings.Cut(text, `route=~`)
		routes, _, _ := strings.Cut(after, "}")
		if !found || !strings.Contains(string(rules), `method="POST",route=~`+routes) {
			t.Errorf("the rules have no sales by the routes of %s", text)
		}
		return
	}
	t.Error("there is no table of sales")
}

// Every panel has a text in both languages, and every text a panel.
func TestTexts(t *testing.T) {
	texts, err := panels.Texts()
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	for _, d := range panels.Dashboards() {
		used["dashboard."+d.Key+".title"], used["dashboard."+d.Key+".description"] = true, true
		for _, p := range d.Panels {
			used["panel."+p.Key+".title"], used["panel."+p.Key+".description"] = true, true
		}
	}
	for _, table := range panels.Tables() {
		used["table."+table.Key] = true
		for _, c := range table.Columns {
			used["column."+c.Key] = true
		}
	}
	for key := range used {
		if texts[key].EN == "" || texts[key].ZH == "" {
			t.Errorf("there is no text %s", key)
		}
	}
	for key := range texts {
		if !used[key] {
			t.Errorf("nothing has the text %s", key)
		}
	}
}

// The expressions in the files are those that the test of the panels evaluates.
func TestEveryExpressionIsOfAPanel(t *testing.T) {
	known := make(map[string]bool)
	for _, e := range expressions() {
		known[e.PromQL("$__rate_interval")] = true
	}
	made, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range made {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		var page struct {
			Panels []struct{ Targets []struct{ Expr string } }
		}
		if err := json.Unmarshal(text, &page); err != nil || len(page.Panels) < 10 {
			t.Fatalf("%s has %d panels: %v", name, len(page.Panels), err)
		}
		for _, p := range page.Panels {
			for _, target := range p.Targets {
				if !known[target.Expr] {
					t.Errorf("%s: %s is not tested", name, target.Expr)
				}
			}
		}
	}
}

// expressions returns those of the panels and of the tables of stock watch.
func expressions() (all []panels.Expr) {
	for _, d := range panels.Dashboards() {
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				all = append(all, q.Expr)
			}
		}
	}
	for _, table := range panels.Tables() {
		for _, c := range table.Columns {
			all = append(all, c.Expr)
		}
	}
	return all
}
