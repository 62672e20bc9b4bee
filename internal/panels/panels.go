// Package panels has the expressions that show how an installation is doing: the panels of the dashboards of Grafana
// (tools/dashboards) and the tables of stock watch. Each expression is written once. It is sent to Prometheus as
// PromQL, or evaluated on scrapes of the instances where there is no Prometheus.
package panels

import (
	"embed"
	"slices"
	"strings"

	"example.com/stock/internal/words"
)

//go:embed text
var files embed.FS

// Texts returns the titles and the descriptions. Of a dashboard: dashboard.KEY.title and .description. Of a panel:
// panel.KEY.title and .description. Of a table of stock watch: table.KEY, and of its columns: column.KEY.
func Texts() (words.Texts, error) { return words.ReadTexts(files, "text") }

// A Unit is what the values of a panel are.
type Unit string

// The units.
const (
	PerSecond Unit = "per-second"
	Seconds   Unit = "seconds"
	Bytes     Unit = "bytes"
	Share     Unit = "share" // 0 to 1
	Number    Unit = "number"
	Yes       Unit = "yes" // 1 or 0
)

// An Alarm says which values need a person.
type Alarm string

// The alarms.
const (
	Never     Alarm = ""
	AboveZero Alarm = "above-zero"
	BelowOne  Alarm = "below-one"
)

// Rings reports whether a value needs a person.
func (a Alarm) Rings(value float64) bool {
	return a == AboveZero && value > 0 || a == BelowOne && value < 1
}

// A Dashboard is a page of panels, in the order in which a person reads them.
type Dashboard struct {
	Key    string
	Panels []Panel
}

// A Panel shows one or several queries over time.
type Panel struct {
	Key     string
	Unit    Unit
	Alarm   Alarm
	Queries []Query
}

// A Query is an expression and the name of what it returns.
type Query struct {
	Expr Expr
	Name string // such as p99; empty: the labels name each series
}

// Legend returns the name of a series in the notation of Grafana: {{strategy}} p99.
func (q Query) Legend() string {
	var parts []string
	for _, label := range q.Expr.by {
		parts = append(parts, "{{"+label+"}}")
	}
	if q.Name != "" {
		parts = append(parts, q.Name)
	}
	return strings.Join(parts, " ")
}

// A Table of stock watch has a row for each value of a label, or a single row.
type Table struct {
	Key     string
	By      string // label; empty: a single row
	Busy    bool   // rows whose values are all 0 are left out
	Columns []Column
}

// A Column shows an expression whose only label is that of the table.
type Column struct {
	Key   string
	Unit  Unit
	Alarm Alarm
	Expr  Expr
}

// Dashboards returns all dashboards.
func Dashboards() []Dashboard { return []Dashboard{service(), locks(), orders()} }

// Names are the labels by which an expression groups.
func (e Expr) Names() []string { return slices.Clone(e.by) }
