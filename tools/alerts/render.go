package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

const generated = "# Made by tools/alerts: cd tools && go run ./alerts\n"

// placeholder is a label of the alert in a summary: {backend}.
var placeholder = regexp.MustCompile(`\{([a-z]+)\}`)

// rules returns the file of recording and alerting rules.
func rules(alerts []alert) string {
	var b strings.Builder
	// One group, because Prometheus evaluates the rules of a group one after the other: the alerts need the ratios that
	// were recorded just before.
	b.WriteString(generated + "groups:\n- name: stock\n  rules:\n")
	for _, o := range []objective{answered, quick} {
		for _, window := range windows {
			fmt.Fprintf(&b, "  - record: %s\n    expr: |-\n%s", o.recorded(window), block(o.ratio(window), 6))
		}
	}
	for _, a := range alerts {
		fmt.Fprintf(&b, "  - alert: %s\n    expr: |-\n%s", a.Name, block(a.Expr, 6))
		if a.For != "" {
			fmt.Fprintf(&b, "    for: %s\n", a.For)
		}
		fmt.Fprintf(&b, "    labels:\n      severity: %s\n    annotations:\n", a.Severity)
		for _, pair := range a.annotations() {
			text := placeholder.ReplaceAllString(pair[1], "{{ $$labels.$1 }}")
			fmt.Fprintf(&b, "      %s: %q\n", pair[0], text)
		}
	}
	return b.String()
}

// annotations returns names and texts, with placeholders for labels.
func (a alert) annotations() [][2]string {
	list := [][2]string{{"summary", a.Summary.EN}, {"summary_zh", a.Summary.ZH}}
	if a.Runbook != "" {
		list = append(list, [2]string{"runbook", "docs/runbooks/" + a.Runbook + ".md"})
	}
	return list
}

// tests returns the file for promtool test rules.
func tests(alerts []alert) string {
	var b strings.Builder
	b.WriteString(generated + "rule_files: [stock.rules.yml]\nevaluation_interval: 1m\ntests:\n")
	for _, a := range alerts {
		for _, e := range a.Fires {
			a.test(&b, e, true)
		}
		for _, e := range a.quiet() {
			a.test(&b, e, false)
		}
	}
	return b.String()
}

// quiet returns the examples that do not fire the alert. If the condition must last, one of them is the first example
// that does fire it, a minute too soon.
func (a alert) quiet() []example {
	if a.For == "" {
		return a.Quiet
	}
	early := a.Fires[0]
	last, err := time.ParseDuration(a.For)
	if err != nil {
		panic(err) // the catalogue is a constant
	}
	early.What, early.Minute = "not yet: "+early.What, int(last.Minutes())-1
	return append(slices.Clone(a.Quiet), early)
}

func (a alert) test(b *strings.Builder, e example, fires bool) {
	says := "does not fire: "
	if fires {
		says = "fires: "
	}
	fmt.Fprintf(b, "- name: %q\n  interval: 1m\n  input_series:\n", a.Name+" "+says+e.What)
	for _, s := range e.Series {
		fmt.Fprintf(b, "  - series: '%s'\n    values: '%s'\n", s.Name, s.Values)
	}
	fmt.Fprintf(b, "  alert_rule_test:\n  - eval_time: %dm\n    alertname: %s\n", e.Minute, a.Name)
	if !fires {
		b.WriteString("    exp_alerts: []\n")
		return
	}
	fmt.Fprintf(b, "    exp_alerts:\n    - exp_labels:\n        severity: %s\n", a.Severity)
	for _, name := range slices.Sorted(maps.Keys(e.Labels)) {
		fmt.Fprintf(b, "        %s: %q\n", name, e.Labels[name])
	}
	b.WriteString("      exp_annotations:\n")
	for _, pair := range a.annotations() {
		text := placeholder.ReplaceAllStringFunc(pair[1], func(p string) string {
			return e.Labels[strings.Trim(p, "{}")]
		})
		fmt.Fprintf(b, "        %s: %q\n", pair[0], text)
	}
}

// table returns docs/alerts.md in a language.
func table(alerts []alert, shown []shown, texts words.Texts, lang string) string {
	say := func(key string) string { return strings.TrimSpace(texts["doc."+key].In(lang)) }
	suffix, twin, readme := ".md", "[中文](alerts.zh-CN.md)", "../README.md"
	if lang == words.Chinese {
		suffix, twin, readme = ".zh-CN.md", "[English](alerts.md)", "../README.zh-CN.md"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- Made by tools/alerts: cd tools && go run ./alerts -->\n\n# %s\n\n%s · [%s](%s)\n\n%s\n\n",
		say("title"), twin, say("back"), readme, say("intro"))
	columns := []string{say("alert"), say("condition"), say("severity"), say("customers"), say("runbook")}
	fmt.Fprintf(&b, "## %s\n\n%s\n\n| %s |\n|---|---|---|---|---|\n",
		say("table"), say("severities"), strings.Join(columns, " | "))
	for _, a := range alerts {
		book := "-"
		if a.Runbook != "" {
			book = fmt.Sprintf("[%s](runbooks/%s%s)", a.Runbook, a.Runbook, suffix)
		}
		condition := strings.TrimSpace(a.Condition.In(lang))
		if a.For != "" {
			condition += strings.ReplaceAll(say("for"), "{time}", a.For)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", a.Name, condition, say(a.Severity),
			strings.TrimSpace(a.Customers.In(lang)), book)
	}
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", say("objectives"), say("burns"))
	b.WriteString(matrix(alerts, shown, say, lang))
	fmt.Fprintf(&b, "## %s\n\n%s\n", say("missing"), say("gaps"))
	return b.String()
}

// block indents the lines of a text.
func block(text string, spaces int) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Repeat(" ", spaces) + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String()
}
