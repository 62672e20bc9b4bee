// Dashboards makes the dashboards of Grafana in deploy/grafana from the panels of internal/panels, for each language.
//
//	cd tools && go run ./dashboards
package main

//lint:file-ignore SA1019 Grafana 11 does not know the dashboards of package dashboardv2.

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"

	"example.com/stock/internal/panels"
	"example.com/stock/internal/words"
	"example.com/stock/tools/bench/rig"
)

func main() {
	if len(os.Args) > 1 {
		log.Fatalf("usage: cd tools && go run ./dashboards (it takes no arguments, got %q)", os.Args[1:])
	}
	made, err := generate("..")
	if err != nil {
		log.Fatal(err)
	}
	for name, text := range made {
		if err := os.WriteFile(filepath.Join("..", name), text, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}

// generate returns the files by their paths from root, the folder of the service's module. There is a set for each
// language, which Grafana shows in a folder of its own: Grafana does not translate dashboards, and two languages in
// each title would leave no room for either.
func generate(root string) (map[string][]byte, error) {
	texts, err := panels.Texts()
	if err != nil {
		return nil, err
	}
	made := make(map[string][]byte)
	for _, lang := range []string{words.English, words.Chinese} {
		for _, d := range panels.Dashboards() {
			page, err := build(d, texts, lang)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", d.Key, err)
			}
			text, err := json.MarshalIndent(page, "", "  ")
			if err != nil {
				return nil, err
			}
			made[fmt.Sprintf("deploy/grafana/dashboards/%s/%s.json", lang, d.Key)] = append(text, '\n')
		}
		if made[guides[lang]], err = guide(root, texts, lang); err != nil {
			return nil, err
		}
	}
	return made, nil
}

var guides = map[string]string{words.English: "docs/dashboards.md", words.Chinese: "docs/dashboards.zh-CN.md"}

// guide returns the document of a language with the tables of the panels as they are now.
func guide(root string, texts words.Texts, lang string) ([]byte, error) {
	var b strings.Builder
	for _, d := range panels.Dashboards() {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n", texts["dashboard."+d.Key+".title"].In(lang),
			texts["dashboard."+d.Key+".description"].In(lang))
		heads := words.Text{EN: "panel | what it shows", ZH: "面板 | 显示什么"}
		fmt.Fprintf(&b, "\n| %s |\n|---|---|\n", heads.In(lang))
		for _, p := range d.Panels {
			fmt.Fprintf(&b, "| %s | %s |\n", texts["panel."+p.Key+".title"].In(lang),
				texts["panel."+p.Key+".description"].In(lang))
		}
	}
	return fill(filepath.Join(root, guides[lang]), "panels", b.String()+"\n")
}

// fill returns a file with other text at a mark.
func fill(path, mark, made string) ([]byte, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text, err := rig.Fill(string(page), mark, made)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return []byte(text), nil
}

// source is the datasource that the variable of the dashboard selects.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
}

// width is that of a panel, of the 24 columns of a dashboard.
const width, height = 12, 8

func build(d panels.Dashboard, texts words.Texts, lang string) (dashboard.Dashboard, error) {
	say := func(key string) string { return texts[key].In(lang) }
	b := dashboard.NewDashboardBuilder(say("dashboard."+d.Key+".title")).
		Description(say("dashboard."+d.Key+".description")).
		Uid("stock-"+d.Key+"-"+lang).
		Tags([]string{"stock"}).
		Time("now-1h", "now").
		Refresh("30s").
		Tooltip(dashboard.DashboardCursorSyncCrosshair).
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		Link(dashboard.NewDashboardLinkBuilder("stock").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{"stock"}).KeepTime(true))
	for i, p := range d.Panels {
		b.WithPanel(panel(p, say).Id(uint32(i + 1)).GridPos(dashboard.GridPos{
			X: uint32(i%2) * width, Y: uint32(i/2) * height, W: width, H: height,
		}))
	}
	page, err := b.Build()
	page.SchemaVersion = 39 // of Grafana 11.0: newer ones know how to read it
	return page, err
}

// grafana has Grafana's names of the units.
var grafana = map[panels.Unit]string{
	panels.PerSecond: "ops", panels.Seconds: "s", panels.Bytes: "bytes", panels.Share: "percentunit",
	panels.Number: "short", panels.Yes: "bool_yes_no",
}

func panel(p panels.Panel, say func(string) string) *timeseries.PanelBuilder {
	b := timeseries.NewPanelBuilder().
		Title(say("panel." + p.Key + ".title")).
		Description(say("panel." + p.Key + ".description")).
		Datasource(source()).
		Unit(grafana[p.Unit]).
		Min(0).
		FillOpacity(10).
		ShowPoints(common.VisibilityModeNever).
		Legend(common.NewVizLegendOptionsBuilder().
			ShowLegend(true).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).
		Tooltip(common.NewVizTooltipOptionsBuilder().
			Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending))
	if p.Unit == panels.Yes {
		b.Max(1).LineInterpolation(common.LineInterpolationStepAfter)
	}
	if steps := steps(p.Alarm); steps != nil {
		b.Thresholds(dashboard.NewThresholdsConfigBuilder().Mode(dashboard.ThresholdsModeAbsolute).Steps(steps)).
			ThresholdsStyle(common.NewGraphThresholdsStyleConfigBuilder().Mode(common.GraphThresholdsStyleModeDashed))
	}
	for i, q := range p.Queries {
		b.WithTarget(prometheus.NewDataqueryBuilder().
			RefId(string(rune('A' + i))).
			Datasource(source()).
			Expr(q.Expr.PromQL("$__rate_interval")).
			LegendFormat(q.Legend()).
			Range())
	}
	return b
}

// steps returns the colours by value. The line of a step above zero is drawn a little above it.
func steps(a panels.Alarm) []dashboard.Threshold {
	switch a {
	case panels.AboveZero:
		return []dashboard.Threshold{{Color: "green"}, {Value: cog.ToPtr(1e-9), Color: "red"}}
	case panels.BelowOne:
		return []dashboard.Threshold{{Color: "red"}, {Value: cog.ToPtr(1.0), Color: "green"}}
	}
	return nil
}
