package starter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	stock "example.com/stock"
)

// Optional returns the parts that a service need not have: those for operators.
func Optional() []string { return []string{"alerts", "runbooks", "dashboards", "kubernetes"} }

// Additional returns the parts that a service has only if they are asked for: each would be a twentieth of its code.
func Additional() []string { return []string{"traces", "handover"} }

// kube returns the name of objects in Kubernetes, and of the job in Prometheus.
func (c Choice) kube() string { return noWord.ReplaceAllString(c.name(), "-") }

// camel returns the prefix of the names of alerts.
func (c Choice) camel() (name string) {
	for part := range strings.SplitSeq(c.metric(), "_") {
		name += strings.ToUpper(part[:1]) + part[1:]
	}
	return name
}

// books returns the runbooks that fit a service. Its alerts are those with such a runbook: what the others are about
// cannot happen, or is not noticed. lock-stuck is from a template.
func (c Choice) books() []string {
	list := []string{
		"sales-failing", "sales-slow", "no-instance-ready", "instance-not-ready", "instance-down", "internal-error",
		"overloaded", "log-dropped", "store-down", "store-full", "outcome-unknown", "certificate", "token-keys",
		"reservation-never-ends",
	}
	if c.features()["lock"] {
		list = append(list, "lease-lost", "lock-stranded", "fence-refused", "lock-stuck")
	}
	if c.features()["zookeeper"] {
		list = append(list, "lock-server-down")
	}
	return list
}

var alertAndBook = regexp.MustCompile(`(?s)- alert: (\w+)\n.*?runbook: "docs/runbooks/([a-z-]+)\.md"`)

// alerts returns the names of the alerts that a service has, as this project names them.
func (c Choice) alerts() (names []string, err error) {
	rules, err := stock.Source.ReadFile(ruleFile)
	for _, m := range alertAndBook.FindAllSubmatch(rules, -1) {
		if slices.Contains(c.books(), string(m[2])) {
			names = append(names, string(m[1]))
		}
	}
	return names, err
}

const (
	ruleFile = "deploy/prometheus/stock.rules.yml"
	testFile = "deploy/prometheus/tests.yml"
)

// An edit replaces a part of a copied text that does not fit a generated service.
type edit struct {
	When     []string
	Was, Now string
}

// edits reads edits.yaml: the edits of each file.
func edits() (all map[string][]edit, err error) {
	text, err := files.ReadFile("edits.yaml")
	if err != nil {
		return nil, err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		return nil, fmt.Errorf("edits.yaml: %w", err)
	}
	return all, nil
}

// edited returns a copied file with its edits. An edit that no longer fits is an error.
func (c Choice) edited(name string, text []byte, list []edit) ([]byte, error) {
	for _, e := range list {
		if !bytes.Contains(text, []byte(e.Was)) {
			return nil, fmt.Errorf("edits.yaml: %s does not have %q", name, e.Was)
		}
		if c.has(e.When) {
			text = bytes.Replace(text, []byte(e.Was), []byte(e.Now), 1)
		}
	}
	return text, nil
}

// has reports whether c has all features of a condition. "!lock" is true without a lock.
func (c Choice) has(when []string) bool {
	features := c.features()
	return !slices.ContainsFunc(when, func(f string) bool {
		f, not := strings.CutPrefix(f, "!")
		return features[f] == not
	})
}

// operating reports whether a file is one of those for operators.
func operating(name string) bool {
	return strings.HasPrefix(name, "deploy/") || strings.HasPrefix(name, "docs/")
}

// operate adapts a file for operators, and returns its new name, or "" if the service does not need the file.
func (c Choice) operate(name string, text []byte, list []edit) (string, []byte, error) {
	if dir, file := path.Split(name); dir == "docs/runbooks/" {
		if book, _, _ := strings.Cut(file, "."); !slices.Contains(c.books(), book) || book == "lock-stuck" {
			return "", nil, nil
		}
	}
	text, err := c.edited(name, text, list)
	if err != nil {
		return "", nil, err
	}
	switch {
	case name == ruleFile:
		text, err = c.applicable(text, "  - alert: ")
	case name == testFile:
		text, err = c.applicable(text, `- name: "`)
	case path.Ext(name) == ".json":
		text, err = c.measured(text)
	case name == "deploy/kubernetes/base/networkpolicy.yaml" && !c.features()["mysql-store"]:
		const policy = "---\n"
		list := slices.DeleteFunc(strings.Split(string(text), policy), func(p string) bool {
			return strings.Contains(p, "component: migration")
		})
		text = []byte(strings.Join(list, policy))
	case path.Ext(name) == ".md":
		text = c.linked(text)
	}
	return strings.Replace(name, "/stock.", "/"+c.name()+".", 1), c.renameOperated(name, text), err
}

// applicable leaves out the entries of a YAML list that are about alerts that the service does not have. An entry
// begins with a line of this kind and the name of the alert.
func (c Choice) applicable(text []byte, begins string) ([]byte, error) {
	has, err := c.alerts()
	if err != nil {
		return nil, err
	}
	entries := strings.Split(string(text), "\n"+begins)
	kept := entries[:1]
	for _, e := range entries[1:] {
		name, _, _ := strings.Cut(strings.Fields(e)[0], "\n")
		if slices.Contains(has, name) {
			kept = append(kept, e)
		}
	}
	made := strings.TrimSuffix(strings.Join(kept, "\n"+begins), "\n") + "\n"
	if !c.features()["runbooks"] {
		made = runbookLine.ReplaceAllString(made, "")
	}
	return []byte(made), nil
}

var (
	runbookLine = regexp.MustCompile(`(?m)^ +runbook: .*\n`)
	metricName  = regexp.MustCompile(`\bstock_([a-z_]+)`)
	part        = regexp.MustCompile(`_(bucket|sum|count)$`)
	link        = regexp.MustCompile(`\[([^]]*)\]\(([^)]*)\)`)
	alertName   = regexp.MustCompile(`\bStock([A-Z])`)
	word        = regexp.MustCompile(`(/v1/)?\bstock\b`)
)

// measured leaves the panels of a dashboard out whose metrics the service does not have, and closes the gaps.
func (c Choice) measured(text []byte) ([]byte, error) {
	source, err := stock.Source.ReadFile("app/metrics/metrics.go")
	if err != nil {
		return nil, err
	}
	var page map[string]any
	if err := json.Unmarshal(text, &page); err != nil {
		return nil, err
	}
	var kept []any
	for _, p := range page["panels"].([]any) {
		p := p.(map[string]any)
		queries, _ := json.Marshal(p["targets"]) // it was unmarshalled
		if slices.ContainsFunc(metricName.FindAllSubmatch(queries, -1), func(m [][]byte) bool {
			return !bytes.Contains(source, fmt.Appendf(nil, "%q", part.ReplaceAll(m[1], nil)))
		}) {
			continue
		}
		at := p["gridPos"].(map[string]any)
		at["x"], at["y"] = len(kept)%2*12, len(kept)/2*8
		kept = append(kept, p)
	}
	page["panels"] = kept
	made, err := json.MarshalIndent(page, "", "  ")
	return append(made, '\n'), err
}

// linked makes links to other runbooks that the service has. Other links become their text.
func (c Choice) linked(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("(../alerts."), []byte("(README."))
	return link.ReplaceAllFunc(text, func(found []byte) []byte {
		m := link.FindSubmatch(found)
		book, _, _ := strings.Cut(string(m[2]), ".")
		if book == "README" || slices.Contains(c.books(), book) {
			return found
		}
		return m[1]
	})
}

// renameOperated gives a file for operators the names of the service.
func (c Choice) renameOperated(name string, text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("/deduct_stock.*|/v1/stock/:sku/deduct|"), nil) // routes of the strategies
	text = bytes.ReplaceAll(text, []byte("STOCK_"), []byte(c.env()))
	text = alertName.ReplaceAll(text, []byte(c.camel()+"$1"))
	for _, after := range []string{"_", ":sales"} {
		text = bytes.ReplaceAll(text, []byte("stock"+after), []byte(c.metric()+after))
	}
	quoted := func(s string) []byte { return []byte(`"` + s + `"`) }
	switch path.Ext(name) {
	case ".md": // stock is also a noun there
		text = commands.ReplaceAll(text, []byte(c.name()+" $1"))
		return bytes.ReplaceAll(text, quoted("stock"), quoted(c.kube()))
	case ".json":
		for was, now := range map[string]string{
			`"Stock: `: `"` + c.name() + ": ", `"库存：`: `"` + c.name() + "：", `"stock"`: `"` + c.kube() + `"`,
			`"stock-`: `"` + c.kube() + "-", `(.+/)?stock\"`: `(.+/)?` + c.kube() + `\"`,
		} {
			text = bytes.ReplaceAll(text, []byte(was), []byte(now))
		}
		return text
	}
	text = bytes.ReplaceAll(text, []byte("stock.rules.yml"), []byte(c.name()+".rules.yml"))
	return word.ReplaceAllFunc(text, func(found []byte) []byte {
		if bytes.HasPrefix(found, []byte("/v1/")) {
			return found
		}
		return []byte(c.kube())
	})
}

// index returns rows of the table of alerts of this project in a language: those of the alerts that the service has.
func (c Choice) index(suffix string) (string, error) {
	name := "docs/alerts" + suffix
	text, err := stock.Source.ReadFile(name)
	if err != nil {
		return "", err
	}
	has, err := c.alerts()
	if err != nil {
		return "", err
	}
	var rows []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, "`"); strings.HasPrefix(line, "| `Stock") && slices.Contains(has, fields[1]) {
			rows = append(rows, strings.ReplaceAll(line, "(runbooks/", "("))
		}
	}
	if len(rows) != len(has) {
		return "", fmt.Errorf("%s has %d of %d alerts", name, len(rows), len(has))
	}
	return strings.TrimSuffix(string(c.renameOperated(name, []byte(strings.Join(rows, "")))), "\n"), nil
}
