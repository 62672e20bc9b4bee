package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// With DEPS=no nothing is installed, whoever asks, and what is missing is named.
func TestDepsNo(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	// A computer without servers, where apt-get is there and the user is root.
	bin, called := t.TempDir(), filepath.Join(t.TempDir(), "called")
	for name, script := range map[string]string{"apt-get": "echo > '" + called + "'", "id": "echo 0"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!"+bash+"\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, tool := range []string{"chmod", "rm"} { // with which the script tidies up if it does install
		if path, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		} else if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, "deps")
	cmd.Env = []string{"PATH=" + bin, "DEPS=no"}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "redis-server") || !strings.Contains(string(out), "DEPS=no") {
		t.Errorf("%v, want the names of what is missing:\n%s", err, out)
	}
	if _, err := os.Stat(called); err == nil {
		t.Errorf("apt-get was called:\n%s", out)
	}
}
