package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestEmptyOptionsKeepWhatIsShipped(t *testing.T) {
	if got := string(Nginx(NginxOptions{})); got != shipped {
		t.Errorf("changed without being asked to:\n%s", got)
	}
}

// A root nginx -t makes the compiled-in folders its own, which would hurt an nginx already on this computer. So the shipped file
// is tried where those folders are empty ones of its own; without the right to do that, the next test and the composition remain.
func TestShippedFilePasses(t *testing.T) {
	path := nginxPath(t)
	if os.Geteuid() != 0 {
		t.Skip("the shipped paths are root's")
	}
	const hide = "for d in /var/lib/nginx /var/log/nginx /run; do mkdir -p $d && mount -t tmpfs tmpfs $d || exit 77; done; "
	file, err := filepath.Abs("nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-c", hide+`exec "$0" -t -c "$1"`, path, file).CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() != 77 {
		t.Errorf("nginx -t: %v\n%s", err, out)
	} else if err != nil {
		t.Skipf("no mount namespace of our own: %v: %s", err, out)
	}
}

func TestRewrittenFilePasses(t *testing.T) {
	path := nginxPath(t)
	dir := filepath.Join(t.TempDir(), `a "quoted" name`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	text := Nginx(NginxOptions{Listen: "127.0.0.1:0", Upstreams: []string{"127.0.0.1:1", "localhost:2"}, Dir: dir})
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	// Port 0 is not a port to nginx, which proves that the file is read and judged; the right one passes.
	if out, err := exec.CommandContext(t.Context(), path, "-e", "stderr", "-t", "-c", file).CombinedOutput(); err == nil {
		t.Errorf("nginx -t took port 0:\n%s", out)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "127.0.0.1:0;", "127.0.0.1:18080;", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), path, "-e", "stderr", "-t", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
	for _, gone := range []string{":8088", ":8089", ":8090", "listen 8080", "/run/", "/var/"} {
		if strings.Contains(string(text), gone+";") || strings.Contains(string(text), " "+gone) {
			t.Errorf("%s was not replaced", gone)
		}
	}
}

// The composition replaces the servers with awk, because its nginx image has no Go: both ways must mean the same.
func TestEntryWritesWhatNginxWrites(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sh", "nginx-entry", "print", "10.0.0.1", "fd00::2")
	cmd.Env = append(os.Environ(), "NGINX_SHIPPED=nginx.conf", "STOCK_UPSTREAM=stock:8088")
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if want := Nginx(NginxOptions{Upstreams: []string{"10.0.0.1:8088", "[fd00::2]:8088"}}); string(got) != string(want) {
		t.Errorf("nginx-entry wrote\n%s\nNginx\n%s", got, want)
	}
}

func TestScriptsParse(t *testing.T) {
	for _, s := range []struct{ shell, file string }{
		{"sh", "nginx-entry"},
		{"bash", "compose-test"},
		{"bash", "standin/build"},
		{"bash", "standin/remove"},
		{"bash", "standin/mariadb-entry"},
		{"sh", "standin/zookeeper-entry"},
		{"sh", "standin/redis-entry"},
	} {
		shell, err := exec.LookPath(s.shell)
		if err != nil {
			t.Skipf("no %s on PATH", s.shell)
		}
		if out, err := exec.CommandContext(t.Context(), shell, "-n", s.file).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", s.file, err, out)
		}
	}
}
