package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standIns puts programs before path that stand in for those that need a network, and returns the environment.
func standIns(t *testing.T, path string, programs map[string]string) (env []string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/bash\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "PATH="+dir+":"+path, "STEP_EVERY=0.2")
}

// docker is an engine without images, and without a registry that answers soon.
const docker = `case "$1 $2" in
"version "*) echo amd64 ;;
"compose version") ;;
"compose config") printf 'services:\n  nginx:\n    image: nginx:1\n  redis:\n    image: redis:1\n' ;;
"pull "*) sleep 1; exit 1 ;;
*) exit 1 ;;
esac
`

// Making images says what it does, which step of how many that is, and how long it has taken, also through a pipe. What
// failed is said last.
func TestImagesShowTheirProgress(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("the base of the stand-ins needs root")
	}
	images := exec.CommandContext(t.Context(), "./images", "nginx", "redis")
	images.Env = standIns(t, os.Getenv("PATH"), map[string]string{
		"docker":      docker,
		"apt-get":     `. /etc/os-release; echo "Packages http://mirror.invalid $VERSION_CODENAME main"`,
		"debootstrap": `sleep 1; echo "E: the mirror does not answer"; exit 1`,
	})
	out, err := images.CombinedOutput() // it returns when nothing holds the pipe any more
	said := string(out)
	if err == nil {
		t.Errorf("it went through:\n%s", said)
	}
	from := 0
	for _, want := range []string{
		"images: [1/2] nginx:1, from a registry\n", "images: [1/2] nginx:1, from a registry: ", " s so far\n",
		"images: [1/2] nginx:1, from a registry: none there\n", "images: [2/2] redis:1, from a registry\n",
		"no registry gives nginx redis: stand-ins are made", "standin: [1/5] base of the servers: a minimal ",
		" s so far\n", "E: the mirror does not answer\n", "standin: debootstrap did not finish\n",
	} {
		i := strings.Index(said[from:], want)
		if i < 0 {
			t.Fatalf("after %q there is no %q in\n%s", said[:from], want, said)
		}
		from += i + len(want)
	}
	if from != len(said) {
		t.Errorf("after the reason it says %q", said[from:])
	}
}

// without returns a folder of links to the programs on PATH, without one of them.
func without(t *testing.T, program string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, from := range filepath.SplitList(os.Getenv("PATH")) {
		all, err := filepath.Glob(from + "/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range all {
			if filepath.Base(path) != program {
				_ = os.Symlink(path, filepath.Join(dir, filepath.Base(path))) // of two, the first counts
			}
		}
	}
	return dir
}

// On a computer without a registry and without debootstrap, debootstrap is installed, and is not with DEPS=no.
func TestImagesInstallDebootstrap(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("the base of the stand-ins needs root")
	}
	for _, row := range []struct{ deps, want, not string }{
		{"yes", "E: the mirror does not answer\nstandin: debootstrap did not finish\n", "is missing"},
		{"no", "standin: debootstrap is missing: apt-get install debootstrap\n", "will be installed"},
	} {
		t.Run(row.deps, func(t *testing.T) {
			t.Parallel()
			images := exec.CommandContext(t.Context(), "./images", "nginx")
			images.Env = standIns(t, without(t, "debootstrap"), map[string]string{
				"docker": docker,
				"apt-get": `case $1 in
install)
  at=$(dirname "$0")/debootstrap
  printf '#!/bin/bash\necho "E: the mirror does not answer"; exit 1\n' >"$at"; chmod +x "$at"
  ;;
indextargets) . /etc/os-release; echo "Packages http://mirror.invalid $VERSION_CODENAME main" ;;
esac`,
			})
			images.Env = append(images.Env, "DEPS="+row.deps)
			out, err := images.CombinedOutput()
			if err == nil || !strings.HasSuffix(string(out), row.want) || strings.Contains(string(out), row.not) {
				t.Errorf("%v, want at the end %q:\n%s", err, row.want, out)
			}
		})
	}
}

// A step that is done says how long it took, and what is there counts as a step.
func TestImagesThatAreThere(t *testing.T) {
	t.Parallel()
	build := exec.CommandContext(t.Context(), "noregistry/build", "nginx", "redis")
	engine := strings.Replace(docker, `"pull "*)`, "\"image inspect\") ;;\n\"pull \"*)", 1)
	build.Env = standIns(t, os.Getenv("PATH"), map[string]string{"docker": engine})
	out, err := build.CombinedOutput()
	const there = "is there, and not ours: left alone (--force replaces it)\n"
	want := "standin: [1/2] nginx:1: " + there + "standin: [2/2] redis:1: " + there
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
}
