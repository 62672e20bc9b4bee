package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/panels"
	"example.com/stock/internal/words"
)

// page returns the whole page. columns is the width of the terminal, 0: none.
func (w *watcher) page(ctx context.Context, columns int) string {
	texts, err := panels.Texts()
	if err != nil {
		return w.message(err) + "\n"
	}
	page := watchPage{voice: w.voice, texts: texts, color: w.colors(columns), columns: cmp.Or(columns, 80)}
	if w.prometheus.URL != "" {
		page.line(w.say("watch.by-prometheus", "url", w.prometheus.URL, "window", watchWindow, "time", now()))
		page.alerts(w.prometheus.Alerts(ctx))
		page.tables(func(e panels.Expr) ([]panels.Sample, error) {
			return w.prometheus.Query(ctx, e.PromQL(watchWindow), time.Time{})
		})
		return page.String()
	}
	pairs := w.instances.Scrape(ctx)
	answer, window := 0, time.Duration(0)
	for _, p := range pairs {
		if p.Err == nil {
			answer++
		}
		if !p.Before.At.IsZero() {
			window = max(window, p.Now.At.Sub(p.Before.At))
		}
	}
	page.line(w.say("watch.by-instances", "answer", answer, "n", len(pairs), "window", brief(window), "time", now()))
	for _, p := range pairs {
		if p.Err != nil {
			page.line(page.bad(w.say("watch.silent", "instance", p.Instance, "why", p.Err)))
		}
	}
	page.tables(func(e panels.Expr) ([]panels.Sample, error) { return e.Eval(pairs), nil })
	page.line("")
	page.line(w.say("watch.no-alerts"))
	return page.String()
}

func now() string { return time.Now().Format("15:04:05") }

type watchPage struct {
	voice
	strings.Builder
	texts   words.Texts
	color   bool
	columns int
}

// line adds a line, cut to the width of the page.
func (p *watchPage) line(text string) { p.WriteString(cut(text, p.columns) + "\n") }

// bad marks a text in red, if there are colours. Without them, values have a "!".
func (p *watchPage) bad(text string) string {
	if p.color {
		return "\x1b[1;31m" + text + "\x1b[0m"
	}
	return text
}

func (p *watchPage) title(text string) string {
	if p.color {
		return "\x1b[1m" + text + "\x1b[0m"
	}
	return text
}

// alerts adds a line for each alert, and one if there is none.
func (p *watchPage) alerts(alerts []panels.Alert, err error) {
	p.line("")
	if err != nil {
		p.line(p.bad(p.say("watch.failed", "what", p.say("watch.alerts"), "why", err)))
		return
	}
	p.line(p.title(p.say("watch.alerts")))
	if len(alerts) == 0 {
		p.line("  " + p.say("watch.none-fires"))
	}
	slices.SortFunc(alerts, func(a, b panels.Alert) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Labels["severity"], b.Labels["severity"]),
			cmp.Compare(a.Labels["alertname"], b.Labels["alertname"]))
	})
	for _, a := range alerts {
		summary := a.Annotations["summary"]
		if string(p.voice) == words.Chinese {
			summary = cmp.Or(a.Annotations["summary_zh"], summary)
		}
		since := brief(time.Since(a.ActiveAt))
		text := fmt.Sprintf("  %s %s %s  %s", a.Labels["severity"], a.Labels["alertname"], since, summary)
		if a.State == "firing" {
			p.line(p.bad(text))
		} else {
			p.line("  " + p.say("watch.pending") + text)
		}
	}
}

// tables adds the tables that have values.
func (p *watchPage) tables(eval func(panels.Expr) ([]panels.Sample, error)) {
	for _, t := range panels.Tables() {
		title := p.in(p.texts["table."+t.Key])
		rows := make(map[string][]float64)
		var failed error
		for i, c := range t.Columns {
			samples, err := eval(c.Expr)
			if err != nil {
				failed = err
				break
			}
			for _, s := range samples {
				name := s.Labels[t.By]
				if rows[name] == nil {
					rows[name] = slices.Repeat([]float64{math.NaN()}, len(t.Columns))
				}
				rows[name][i] = s.Value
			}
		}
		if failed != nil {
			p.line("")
			p.line(p.bad(p.say("watch.failed", "what", title, "why", failed)))
			return // the others would fail for the same reason
		}
		if t.Busy {
			maps.DeleteFunc(rows, func(_ string, values []float64) bool {
				return !slices.ContainsFunc(values, func(v float64) bool { return v != 0 && !math.IsNaN(v) })
			})
		}
		if len(rows) > 0 {
			p.table(title, t, rows)
		}
	}
}

// table adds a table: the first column is as wide as the page allows, and the others as wide as they need.
func (p *watchPage) table(title string, t panels.Table, rows map[string][]float64) {
	lines := [][]string{{title}}
	for _, c := range t.Columns {
		lines[0] = append(lines[0], p.in(p.texts["column."+c.Key]))
	}
	alarms := make(map[[2]int]bool)
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		cells := []string{name}
		for i, c := range t.Columns {
			text := valueText(rows[name][i], c.Unit)
			if c.Alarm.Rings(rows[name][i]) {
				text += "!"
				alarms[[2]int{len(lines), i + 1}] = true
			}
			cells = append(cells, text)
		}
		lines = append(lines, cells)
	}
	widths := make([]int, len(lines[0]))
	for _, cells := range lines {
		for i, cell := range cells {
			widths[i] = max(widths[i], words.Columns(cell))
		}
	}
	used := 2
	for _, n := range widths[1:] {
		used += n + 1
	}
	first := min(max(widths[0], 22), max(p.columns-used, 8))
	p.line("")
	for row, cells := range lines {
		var b strings.Builder
		name := cut(cells[0], first)
		head := name
		if row == 0 {
			head = p.title(name)
		} else {
			head = "  " + head
			name = "  " + name
		}
		b.WriteString(head + strings.Repeat(" ", max(0, first+2-words.Columns(name))))
		for i, cell := range cells[1:] {
			b.WriteString(" " + strings.Repeat(" ", widths[i+1]-words.Columns(cell)))
			if alarms[[2]int{row, i + 1}] {
				cell = p.bad(cell)
			}
			b.WriteString(cell)
		}
		p.line(b.String())
	}
}

// valueText returns a value as a person reads it: three digits are enough.
func valueText(v float64, unit panels.Unit) string {
	if math.IsNaN(v) {
		return "-"
	}
	switch unit {
	case panels.Seconds:
		switch {
		case v < .001:
			return digits(v*1e6) + "µs"
		case v < 1:
			return digits(v*1e3) + "ms"
		}
		return digits(v) + "s"
	case panels.Bytes:
		return digits(v/(1<<20)) + "MiB"
	case panels.Share:
		return digits(v*100) + "%"
	default:
		return digits(v)
	}
}

// digits returns a number with at most three digits, or as a whole number.
func digits(v float64) string {
	places := 0
	switch {
	case v == math.Trunc(v) || v >= 100:
	case v >= 10:
		places = 1
	default:
		places = 2
	}
	return strconv.FormatFloat(v, 'f', places, 64)
}

// cut returns what fits into a number of columns. Sequences of colours take none.
func cut(text string, columns int) string {
	var b strings.Builder
	n, escape := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		default:
			n += words.Columns(string(r))
			if n > columns {
				continue // a sequence that ends the colour may follow
			}
		}
		b.WriteRune(r)
	}
	return b.String()
}
