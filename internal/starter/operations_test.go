package starter_test

import (
	"encoding/json"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"example.com/stock/internal/starter"
)

// operated returns services whose files for operators differ: by servers, locks, and the characters of the name.
func operated() []starter.Choice {
	return []starter.Choice{
		choice(),
		{Module: "github.com/acme/my-shop/v2", Strategies: []string{"zk-sequential"}, Stores: []string{"redis"}},
		{Module: "github.com/acme/a.b_c", Strategies: []string{"redis-watchdog"}, Stores: []string{"redis"}},
		{Module: "github.com/acme/shop", Strategies: starter.Strategies(), Stores: starter.Stores()},
	}
}

// all returns the files below a folder of a service, by path.
func all(t *testing.T, dir, below string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	err := filepath.WalkDir(filepath.Join(dir, below), func(at string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(at)
		name, _ := filepath.Rel(dir, at)
		found[name] = string(text)
		return err
	})
	if err != nil || len(found) == 0 {
		t.Fatal(err, found)
	}
	return found
}

var partFolder = regexp.MustCompile(`deploy/(grafana|kubernetes|prometheus)|docs/runbooks`)

// Each part is there whole, or not at all, and the rest is the same without it.
func TestPartsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	folders := map[string]string{
		"alerts": "deploy/prometheus/orders.rules.yml", "runbooks": "docs/runbooks/store-down.md",
		"dashboards": "deploy/grafana/dashboards/zh/orders.json",
		"kubernetes": "deploy/kubernetes/base/deployment.yaml",
	}
	for _, without := range starter.Optional() {
		c := choice()
		c.Without = []string{without}
		dir, read := written(t, c)
		for part, file := range folders {
			if there := read(file) != ""; there != (part != without) {
				t.Errorf("without %s: %s is there: %v", without, file, there)
			}
		}
		if without == "runbooks" && strings.Contains(read(folders["alerts"]), "runbook") {
			t.Error("an alert names a runbook that was left out")
		}
		for name, text := range all(t, dir, "") {
			if m := partFolder.FindString(text); m != "" && name != starter.Record {
				if _, err := os.Stat(filepath.Join(dir, m)); err != nil {
					t.Errorf("without %s: %s names %s", without, name, m)
				}
			}
		}
	}
	c := choice()
	c.With = []string{"traces"}
	if _, read := written(t, c); read("app/traces/step.go") == "" || read("app/traces/relay.go") != "" {
		t.Error("with traces: those of the ledger are there, and those of the relay are not")
	}
	c = choice()
	c.Without = starter.Optional()
	if dir, _ := written(t, c); true {
		for _, gone := range []string{"docs", "deploy/prometheus", "app/traces"} {
			if _, err := os.Stat(filepath.Join(dir, gone)); err == nil {
				t.Errorf("without all: %s is there", gone)
			}
		}
	}
}

// No file for operators has a name of this project, and YAML and JSON are such.
func TestOperatorsFilesHaveTheNamesOfTheService(t *testing.T) {
	t.Parallel()
	ours := regexp.MustCompile(`\bStock[A-Z:]|\bSTOCK_|\bstock[_-]|/stock\b[^/]|[":]stock\b|stock\.[a-z]|deduct|` +
		`tools/|\.\./|docs/(alerts|operations|kubernetes)`)
	stocks := regexp.MustCompile(`/v1/stock\b|\.\./\.\./(base|components/prometheus)`)
	for _, c := range operated() {
		dir, _ := written(t, c)
		files := all(t, dir, "deploy")
		for name, text := range all(t, dir, "docs") {
			files[name] = text
		}
		files["docker-compose.yml"] = all(t, dir, "docker-compose.yml")["docker-compose.yml"]
		for name, text := range files {
			for line := range strings.Lines(stocks.ReplaceAllString(text, "")) {
				if m := ours.FindString(line); m != "" {
					t.Errorf("%s: %s: %q in %s", c.Module, name, m, line)
				}
			}
			switch path.Ext(name) {
			case ".json":
				if !json.Valid([]byte(text)) {
					t.Errorf("%s is no JSON", name)
				}
			case ".yml", ".yaml":
				d := yaml.NewDecoder(strings.NewReader(text))
				for {
					var document any
					if err := d.Decode(&document); err != nil {
						if err.Error() != "EOF" {
							t.Errorf("%s: %s: %v", c.Module, name, err)
						}
						break
					}
				}
			}
		}
	}
}

// promtool accepts the rules, and their examples fire what they should.
func TestAlertsOfTheService(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("REQUIRE_BACKENDS") != "" {
			t.Fatal(err)
		}
		t.Skip("promtool is not installed")
	}
	for i, c := range operated() {
		if i == 0 {
			c.Without = []string{"runbooks"}
		}
		dir, _ := written(t, c)
		for _, args := range [][]string{
			{"check", "config", filepath.Join(dir, "deploy/prometheus/prometheus.yml")}, // and the rules
			{"test", "rules", filepath.Join(dir, "deploy/prometheus/tests.yml")},
		} {
			if args[0] == "test" && testing.Short() {
				continue // long: make verify
			}
			out, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
			if err != nil || args[0] == "check" && !strings.Contains(string(out), " rules found") {
				t.Errorf("%s: promtool %s: %v\n%s", c.Module, args[0], err, out)
			}
		}
	}
}

var (
	alertOfRules = regexp.MustCompile(`(?m)^  - alert: (\w+)$`)
	series       = func(metric string) *regexp.Regexp { return regexp.MustCompile(`\b` + metric + `_([a-z_]+)\b`) }
	suffixes     = regexp.MustCompile(`_(bucket|sum|count)$`)
)

// metric returns the prefix of the metrics of a service.
func metric(c starter.Choice) string {
	name := path.Base(strings.TrimSuffix(c.Module, "/v2"))
	return regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(name, "_")
}

// The alerts, dashboards and runbooks of a service use metrics that it has. A lock has its alerts, and none has none.
func TestOperatorsSeeWhatIsMeasured(t *testing.T) {
	t.Parallel()
	for _, c := range operated() {
		dir, read := written(t, c)
		source := read("app/metrics/metrics.go")
		files := all(t, dir, "deploy")
		for name, text := range all(t, dir, "docs") {
			files[name] = text
		}
		seen := 0
		for name, text := range files {
			if strings.Contains(name, "kubernetes") || strings.HasSuffix(name, "tests.yml") {
				continue
			}
			for _, m := range series(metric(c)).FindAllStringSubmatch(text, -1) {
				seen++
				short := suffixes.ReplaceAllString(m[1], "")
				if !strings.Contains(source, `"`+short) { // a grep has the beginning of a name
					t.Errorf("%s: %s shows %s", c.Module, name, m[0])
				}
			}
		}
		if seen < 100 {
			t.Errorf("%s: %d metrics, which cannot be all", c.Module, seen)
		}
		lock := !slices.Equal(c.Strategies, []string{"atomic"})
		rules, _ := filepath.Glob(filepath.Join(dir, "deploy/prometheus/*.rules.yml"))
		text, err := os.ReadFile(rules[0])
		if err != nil || strings.Contains(string(text), "LockStuck") != lock ||
			(read("deploy/grafana/dashboards/en/locks.json") != "") != lock {
			t.Errorf("%s: lock: %v, %v", c.Module, lock, err)
		}
		if n := len(alertOfRules.FindAllString(string(text), -1)); n < 18 || n > 26 {
			t.Errorf("%s has %d alerts", c.Module, n)
		}
	}
}

// Every runbook is that of an alert, and every link, alert and command in it exists.
func TestRunbooksOfTheService(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#]*)`)
	for _, c := range operated() {
		dir, read := written(t, c)
		found, _ := filepath.Glob(filepath.Join(dir, "deploy/prometheus/*.rules.yml"))
		text, err := os.ReadFile(found[0])
		if err != nil {
			t.Fatal(err)
		}
		rules := string(text)
		first := alertOfRules.FindStringSubmatch(rules)[1]
		prefix, _, _ := strings.Cut(first, "SalesFailing")
		named := regexp.MustCompile("`(" + prefix + "[A-Z][A-Za-z0-9]+)`")
		checked := 0
		pages := all(t, dir, "docs/runbooks")
		for page, text := range pages {
			book, _, _ := strings.Cut(path.Base(page), ".")
			if book != "README" && !strings.Contains(rules, `runbook: "docs/runbooks/`+book+`.md"`) {
				t.Errorf("%s: no alert has %s", c.Module, page)
			}
			for _, m := range link.FindAllStringSubmatch(text, -1) {
				if _, there := pages[path.Join(path.Dir(page), m[1])]; !there {
					t.Errorf("%s: %s: there is no %s", c.Module, page, m[1])
				}
			}
			for _, m := range named.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(rules, "- alert: "+m[1]+"\n") {
					t.Errorf("%s: %s: there is no alert %s", c.Module, page, m[1])
				}
			}
			for _, command := range codeLines(text) {
				checked++
				if why := noCommand(c, read, command); why != "" {
					t.Errorf("%s: %s: %s: %s", c.Module, page, command, why)
				}
			}
			for _, gone := range []string{"stock relay", "lock ls", "lock evict", "settle"} {
				if strings.Contains(text, gone) {
					t.Errorf("%s: %s speaks of %s", c.Module, page, gone)
				}
			}
		}
		for _, m := range regexp.MustCompile(`runbook: "(.*)"`).FindAllStringSubmatch(rules, -1) {
			if pages[m[1]] == "" || pages[strings.TrimSuffix(m[1], ".md")+".zh-CN.md"] == "" {
				t.Errorf("%s: there is no %s", c.Module, m[1])
			}
		}
		lock := strings.Contains(rules, "LockStuck\n")
		if strings.Contains(pages["docs/runbooks/sales-failing.md"], "(lock-stuck.md)") != lock {
			t.Errorf("%s: lock: %v, and the page of failing sales does not fit", c.Module, lock)
		}
		if checked < 50 {
			t.Errorf("%s: %d commands, which cannot be all", c.Module, checked)
		}
	}
}

// codeLines returns the lines of code of a page.
func codeLines(text string) (lines []string) {
	for i, part := range strings.Split(text, "```\n") {
		if i%2 == 1 {
			lines = append(lines, strings.Split(strings.TrimSpace(part), "\n")...)
		}
	}
	return lines
}

var asked = regexp.MustCompile(`http://(?:localhost:8080|127\.0\.0\.1:(?:8088|9090))(/[^'" ]*)`)

// withID gives a path the name that OpenAPI has for an id.
var withID = strings.NewReplacer("RESERVATION_ID", "{reservation_id}")

// noCommand returns why a command of a runbook cannot be run, or "".
func noCommand(c starter.Choice, read func(string) string, command string) string {
	name := path.Base(strings.TrimSuffix(c.Module, "/v2"))
	words := strings.Fields(command)
	switch words[0] {
	case name:
		var help map[string]struct{ Flags map[string]string }
		if err := yaml.Unmarshal([]byte(read("cmd/"+name+"/help/en.yaml")), &help); err != nil {
			return err.Error()
		}
		known, ok := help[words[1]]
		if !ok {
			return "the program has no such command"
		}
		for _, w := range words[2:] {
			if flag, is := strings.CutPrefix(w, "--"); is && known.Flags[flag] == "" {
				return "the command has no flag " + flag
			}
		}
		return ""
	case "curl":
		m := asked.FindStringSubmatch(command)
		if m == nil {
			return "it asks for no path of the service"
		}
		u, err := url.Parse(m[1])
		if err != nil || !strings.Contains(read("handler/openapi.json"), `"`+withID.Replace(u.Path)+`"`) {
			return "the service has no such path"
		}
		return ""
	}
	return "it is neither the program nor curl"
}
