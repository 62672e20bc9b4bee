package deploy

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The build in the image sees what .dockerignore lets through. A package, or a file that stock new writes, which it
// keeps out would be found out only where an image is built, which is late.
func TestDockerignoreLetsThroughWhatTheProgramNeeds(t *testing.T) {
	t.Parallel()
	through := strings.Fields(string(read(t, "../.dockerignore")))
	for _, list := range [][]string{
		{"-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./cmd/stock"},
		{"-f", `{{range .EmbedFiles}}{{$.ImportPath}}/{{println .}}{{end}}`, "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list"}, list...)...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Skipf("go list %s: %v", list, err)
		}
		for line := range strings.Lines(string(out)) {
			path, ours := strings.CutPrefix(strings.TrimSpace(line), "example.com/stock/")
			if !ours || path == "deploy" { // deploy is let through file by file
				continue
			}
			if !slices.ContainsFunc(through, func(line string) bool {
				kept, yes := strings.CutPrefix(line, "!")
				return yes && (path == kept || strings.HasPrefix(path, kept+"/"))
			}) {
				t.Errorf("the program needs %s, and .dockerignore keeps it out", path)
			}
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
