package stock_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Who imports a lock on Redis gets its client and what that needs, and neither the other clients' code nor the service.
func TestALockBringsFewModules(t *testing.T) {
	const most = 15
	lock, err := filepath.Abs("lock")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(lock, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/user\n\ngo 1.26.0\n\nrequire example.com/stock/lock v0.0.0\n\n" +
			"replace example.com/stock/lock => " + lock + "\n",
		"go.sum": string(sums),
		"use.go": "package user\n\nimport _ \"example.com/stock/lock/redislock\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := func(args ...string) []string {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go list %v: %v\n%s", args, err, out)
		}
		return strings.Fields(string(out))
	}
	modules := list("-m", "-f", "{{if not .Main}}{{.Path}}{{end}}", "all")
	linked := list("-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", ".")
	slices.Sort(linked)
	linked = slices.Compact(linked)
	t.Logf("%d modules: %v\na program contains %d: %v", len(modules), modules, len(linked), linked)
	if len(modules) > most {
		t.Errorf("%d modules, want at most %d", len(modules), most)
	}
	for _, pkg := range list("-deps", ".") {
		if strings.Contains(pkg, "/zk") || strings.Contains(pkg, "/mysql") {
			t.Errorf("a lock on Redis imports %s", pkg)
		}
	}
}
