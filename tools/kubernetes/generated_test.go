package kubernetes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"example.com/stock/tools/kubernetes"
)

// The manifests of generated services keep the same rules, and each program accepts its settings. The services are
// called stock, because the rules know that name only.
func TestManifestsOfGeneratedServices(t *testing.T) {
	stock, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for _, choice := range []struct{ strategies, stores string }{
		{"atomic", "mysql"}, {"redis-watchdog,zk-sequential", "mysql,redis"}, {"atomic", "redis"},
	} {
		name := choice.strategies + " on " + choice.stores
		dir := filepath.Join(t.TempDir(), "new")
		write := exec.Command(stock, "new", dir, "--module", "github.com/acme/stock",
			"--strategies", choice.strategies, "--stores", choice.stores)
		write.Env = []string{"STOCK_LANG=en"} // without go on PATH it only writes the files
		if said, err := write.CombinedOutput(); write.ProcessState.ExitCode() != 4 {
			t.Fatalf("%v\n%s", err, said)
		}
		file := filepath.Join(dir, "bin", "stock")
		if said, err := exec.Command("go", "-C", dir, "build", "-o", file, "./cmd/stock").CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, said)
		}
		config := func(_ *testing.T, env ...string) ([]byte, error) { return configOf(file, env...) }
		text, err := config(t)
		if err != nil {
			t.Fatal(err)
		}
		known := parse(t, text)
		objects, err := kubernetes.Render(filepath.Join(dir, "deploy/kubernetes/overlays/orders"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := kubernetes.Decode(objects)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, rule := range append(kubernetes.Rules(), known.Rules()...) {
			if choice.stores == "redis" && (rule.Name == "migration" || rule.Name == "secrets are in files") {
				continue // both look for MySQL
			}
			for _, finding := range rule.Check(s) {
				t.Errorf("%s: %s: %s", name, rule.Name, finding)
			}
		}
		if image := containerOf(t, s, "stock").Image; image != "registry.example.com/shop/stock:v1.0.0" {
			t.Errorf("%s: the image is %s", name, image)
		}
		accepts(t, name, s, config)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}
