package kubernetes_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	core "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"example.com/stock/tools/kubernetes"
)

const folder = "../../deploy/kubernetes"

func overlays() []string { return []string{"demo", "orders", "ha"} }

// rendered has the objects of each overlay as YAML.
var rendered = sync.OnceValues(func() (map[string][][]byte, error) {
	all := make(map[string][][]byte)
	for _, overlay := range overlays() {
		objects, err := kubernetes.Render(filepath.Join(folder, "overlays", overlay))
		if err != nil {
			return nil, err
		}
		all[overlay] = objects
	}
	return all, nil
})

// build returns the objects of an overlay, which the caller may change.
func build(t *testing.T, overlay string) *kubernetes.Set {
	t.Helper()
	all, err := rendered()
	if err != nil {
		t.Fatal(err)
	}
	s, err := kubernetes.Decode(all[overlay])
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// rules returns all rules.
func rules(t *testing.T) []kubernetes.Rule {
	t.Helper()
	return append(kubernetes.Rules(), settings(t).Rules()...)
}

// Each overlay builds, decodes without an unknown field, and keeps every rule.
func TestOverlays(t *testing.T) {
	dirs, err := os.ReadDir(filepath.Join(folder, "overlays"))
	if err != nil || len(dirs) != len(overlays()) {
		t.Fatalf("overlays are %v (%v), and this test knows %v", dirs, err, overlays())
	}
	all := rules(t)
	for _, overlay := range overlays() {
		s := build(t, overlay)
		for _, rule := range all {
			for _, finding := range rule.Check(s) {
				t.Errorf("%s: %s: %s", overlay, rule.Name, finding)
			}
		}
	}
}

// Only the demonstration has secrets in the repository.
func TestSecretsAreTheUsers(t *testing.T) {
	for _, overlay := range overlays() {
		if n := len(build(t, overlay).Secrets); (n > 0) != (overlay == "demo") {
			t.Errorf("overlay %s has %d secrets", overlay, n)
		}
	}
}

// program returns the program of this repository, compiled once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "stock")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "stock")
	out, err := exec.Command("go", "-C", "../..", "build", "-o", file, "./cmd/stock").CombinedOutput()
	if err != nil {
		return "", &buildError{out, err}
	}
	return file, nil
})

type buildError struct {
	out []byte
	err error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + string(e.out) }

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// config runs "stock config" with these variables alone.
func config(t *testing.T, env ...string) ([]byte, error) {
	t.Helper()
	file, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return configOf(file, env...)
}

func configOf(file string, env ...string) ([]byte, error) {
	cmd := exec.Command(file, "config")
	cmd.Env = append([]string{"STOCK_LANG=en"}, env...)
	var out, bad bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &bad
	if err := cmd.Run(); err != nil {
		return nil, &buildError{bad.Bytes(), err}
	}
	return out.Bytes(), nil
}

// settings returns those that "stock config" prints, with their defaults.
func settings(t *testing.T) kubernetes.Known {
	t.Helper()
	text, err := config(t)
	if err != nil {
		t.Fatal(err)
	}
	known := parse(t, text)
	if len(known) < 100 {
		t.Fatalf("stock config prints %d settings: this test does not see them", len(known))
	}
	return known
}

// parse reads what "stock config" has printed.
func parse(t *testing.T, text []byte) kubernetes.Known {
	t.Helper()
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	known := make(kubernetes.Known)
	var walk func(prefix string, tree map[string]any)
	walk = func(prefix string, tree map[string]any) {
		for key, value := range tree {
			name := prefix + "_" + strings.ToUpper(key)
			if below, section := value.(map[string]any); section {
				walk(name, below)
				continue
			}
			text, err := yaml.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			known[name] = strings.Trim(strings.TrimSpace(string(text)), `"'`)
		}
	}
	walk("STOCK", tree)
	return known
}

// The rules calculate with the program's defaults.
func TestDefaults(t *testing.T) {
	known := settings(t)
	for name, want := range kubernetes.Defaults() {
		if got := known[name]; got != want {
			t.Errorf("the default of %s is %s, and the rules have %s", name, got, want)
		}
	}
}

// The program accepts the values of every container, with secrets in the files that it names.
func TestTheProgramAcceptsTheSettings(t *testing.T) {
	for _, overlay := range overlays() {
		s := build(t, overlay)
		accepts(t, "overlay "+overlay, s, config)
	}
}

// accepts fails unless the program accepts the settings of each container of a set, and notices a wrong one.
func accepts(t *testing.T, what string, s *kubernetes.Set, config func(*testing.T, ...string) ([]byte, error)) {
	t.Helper()
	contents := map[string]string{"mysql-dsn": "stock:secret@tcp(mysql.example.com:3306)/stock"}
	containers := map[string]core.Container{"Deployment": containerOf(t, s, "stock")}
	for _, job := range s.Jobs {
		containers["Job"] = job.Spec.Template.Spec.Containers[0]
	}
	for kind, c := range containers {
		dir := t.TempDir()
		var env []string
		for name, value := range s.Env(&c) {
			if strings.HasSuffix(name, "_FILE") {
				key := filepath.Base(value)
				value = filepath.Join(dir, key)
				text := contents[key]
				if text == "" {
					text = "secret"
				}
				if err := os.WriteFile(value, []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env = append(env, name+"="+value)
		}
		if _, err := config(t, env...); err != nil {
			t.Errorf("%s: %s: %v", what, kind, err)
		}
		if _, err := config(t, append(env, "STOCK_DRAIN=soon")...); err == nil {
			t.Errorf("%s: %s: a wrong value is accepted: this test sees nothing", what, kind)
		}
	}
}

func containerOf(t *testing.T, s *kubernetes.Set, name string) core.Container {
	t.Helper()
	for _, d := range s.Deployments {
		if d.Name == name {
			return d.Spec.Template.Spec.Containers[0]
		}
	}
	t.Fatalf("no Deployment %s", name)
	return core.Container{}
}

// The autoscaler's metric is one of the program, and the adapter's rule makes it.
func TestTheMetricOfTheAutoscaler(t *testing.T) {
	source := read(t, "../../app/metrics/metrics.go")
	rule := read(t, filepath.Join(folder, "components/prometheus/adapter-values.yaml"))
	seen := 0
	for _, metric := range build(t, "orders").Scalers[0].Spec.Metrics {
		if metric.Pods == nil {
			continue
		}
		seen++
		short, ours := strings.CutPrefix(metric.Pods.Metric.Name, "stock_")
		if !ours || !strings.Contains(source, `"`+short+`"`) {
			t.Errorf("the program has no metric %s", metric.Pods.Metric.Name)
		}
		if !strings.Contains(rule, "seriesQuery: "+metric.Pods.Metric.Name+"{") {
			t.Errorf("no rule of the adapter makes %s", metric.Pods.Metric.Name)
		}
	}
	if seen != 1 {
		t.Errorf("the autoscaler has %d metrics of pods", seen)
	}
}

// The demonstration has the versions of the servers that the composition is tested with.
func TestVersionsOfServers(t *testing.T) {
	composition := read(t, "../../docker-compose.yml")
	for _, d := range build(t, "demo").Deployments {
		image := d.Spec.Template.Spec.Containers[0].Image
		if !regexp.MustCompile(`\$\{[A-Z]+_IMAGE:-` + regexp.QuoteMeta(image) + `\}`).MatchString(composition) {
			t.Errorf("docker-compose.yml has no image %s", image)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
