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
	return append(os.Environ(), "PATH="+dir+":"+path)
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
