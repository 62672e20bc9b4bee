package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEmptyOptionsKeepWhatIsShipped(t *testing.T) {
	t.Parallel()
	if got := string(Nginx(NginxOptions{})); got != shipped {
		t.Errorf("changed without being asked to:\n%s", got)
	}
}

func TestFolderMayHaveQuotesInItsName(t *testing.T) {
	t.Parallel()
	path := nginxPath(t)
	dir := filepath.Join(t.TempDir(), `a "quoted" name`)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "nginx.conf")
	text := Nginx(NginxOptions{Listen: "127.0.0.1:18080", Upstreams: []string{"127.0.0.1:1", "localhost:2"}, Dir: dir})
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), path, "-e", "stderr", "-t", "-c", file).CombinedOutput()
	if err != nil {
		t.Errorf("nginx -t: %v\n%s", err, out)
	}
}

// The composition replaces the servers with awk, because its nginx image has no Go: both ways must mean the same.
func TestEntryWritesWhatNginxWrites(t *testing.T) {
	t.Parallel()
	// upstream is what stands between these two lines.
	upstream := func(text []byte) string {
		_, rest, _ := strings.Cut(string(text), "    upstream stock {\n")
		block, _, _ := strings.Cut(rest, "\n    }\n")
		return block
	}
	for _, args := range [][]string{
		{"front"}, {"back", "10.0.0.1", "fd00::2"}, {"back", "10.0.0.1", "fd00::2", affinity},
	} {
		on := args[len(args)-1] == affinity
		args = slices.DeleteFunc(args, func(arg string) bool { return arg == affinity })
		cmd := exec.CommandContext(t.Context(), "sh", append([]string{"nginx-entry"}, args...)...)
		cmd.Env = append(os.Environ(), "NGINX_SHIPPED=nginx.conf", "STOCK_UPSTREAM=stock:8088", "STOCK_AFFINITY="+
			map[bool]string{true: "sku"}[on])
		got, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if args[0] == "back" {
			want := upstream(Nginx(NginxOptions{
				Upstreams: []string{"10.0.0.1:8088", "[fd00::2]:8088"}, Affinity: on,
			}))
			if switched := strings.Contains(want, "\n        hash $stock_sku"); switched != on {
				t.Errorf("affinity is %t, want %t", switched, on)
			}
			if upstream(got) != want || want == "" {
				t.Errorf("nginx-entry wrote\n%s\nNginx\n%s", got, want)
			}
		}
		// Each has one of the two servers; only the first talks to the other, and with everything.
		direct, to8080, toSocket := 0, 0, 0
		for line := range strings.Lines(string(got)) {
			words := strings.Join(strings.Fields(line), " ")
			switch {
			case words == "listen 8080;":
				to8080++
			case words == "listen unix:/run/stock-again.sock;":
				toSocket++
			case strings.HasSuffix(words, " stock;") && !strings.HasPrefix(words, "default"):
				direct++
			}
		}
		switch front := args[0] == "front"; {
		case front && (direct != 0 || to8080 != 1 || toSocket != 0):
			t.Errorf("the first nginx: %d ways past the second, listens %d, %d times:\n%s", direct, to8080, toSocket,
				got)
		case !front && (to8080 != 0 || toSocket != 1):
			t.Errorf("the second nginx listens %d and %d times:\n%s", to8080, toSocket, got)
		}
	}
}
