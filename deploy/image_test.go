package deploy

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The build in the image sees what .dockerignore lets through. A new package that is not named there would be found
// out only where an image is built, which is late.
func TestDockerignoreLetsEveryPackageThrough(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"./cmd/stock")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("go list ./cmd/stock: %v", err)
	}
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	through := strings.Fields(string(text))
	for path := range strings.Lines(string(out)) {
		folder, ours := strings.CutPrefix(strings.TrimSpace(path), "example.com/stock/")
		if !ours || folder == "deploy" { // deploy is let through file by file
			continue
		}
		top, _, _ := strings.Cut(folder, "/")
		if !slices.Contains(through, "!"+top) {
			t.Errorf("the program needs %s, and .dockerignore keeps it out: add !%s", folder, top)
		}
	}
}

// The compositions and .env.example name the same values with the same defaults.
func TestEnvExampleIsComplete(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("../.env.example")
	if err != nil {
		t.Fatal(err)
	}
	var composition []byte
	for _, path := range []string{"../docker-compose.yml", "ha/docker-compose.yml", "monitoring/docker-compose.yml"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		composition = append(composition, text...)
	}
	want := map[string]string{}
	for _, part := range strings.Split(string(composition), "${")[1:] {
		inside, _, _ := strings.Cut(part, "}")
		name, value, _ := strings.Cut(inside, "-") // with a colon before it an empty value means the default, too
		want[strings.TrimSuffix(name, ":")] = value
	}
	for line := range strings.Lines(string(example)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		if def, known := want[name]; !known || def != value {
			t.Errorf(".env.example says %s=%s; the compositions have %q (known: %v)", name, value, def, known)
		}
		delete(want, name)
	}
	for name := range want {
		t.Errorf("a composition reads %s, which .env.example does not explain", name)
	}
}

// Files that the program embeds for stock new are let through, too, or the build in the image fails.
func TestDockerignoreLetsEmbeddedFilesThrough(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-f", `{{range .EmbedFiles}}{{println .}}{{end}}`, ".")
	cmd.Dir = ".."
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("go list .: %v", err)
	}
	text, err := os.ReadFile("../.dockerignore")
	if err != nil {
		t.Fatal(err)
	}
	through := strings.Fields(string(text))
	for file := range strings.Lines(strings.TrimSpace(string(out))) {
		file = strings.TrimSpace(file)
		if !slices.ContainsFunc(through, func(line string) bool {
			kept, yes := strings.CutPrefix(line, "!")
			return yes && (file == kept || strings.HasPrefix(file, kept+"/"))
		}) {
			t.Errorf(".dockerignore keeps %s out", file)
		}
	}
}
