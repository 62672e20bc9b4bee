package main

import (
	"context"
	_ "embed" // the foreign workers
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

var (
	//go:embed foreign/Contend.java
	contendJava string
	//go:embed foreign/contend.py
	contendPy string
)

// A foreign entrant is a program in another language that speaks the protocol of a worker.
type foreign struct{ script, lock, library string }

// A foreignRunner runs foreign entrants.
type foreignRunner struct {
	dir       string
	classPath string // empty: no Curator
	curator   string // its version
	python    string // an interpreter that has the libraries
}

// debianJava is where Debian puts jars. CURATOR_JARS names another folder for Curator's own.
const debianJava = "/usr/share/java"

// openForeignRunner compiles the Java worker. If there is no compiler or no Curator, err says so, and the runner can do
// without.
func openForeignRunner(ctx context.Context, dir string) (r *foreignRunner, err error) {
	r = &foreignRunner{dir: dir, python: python(ctx)}
	if err := os.WriteFile(filepath.Join(dir, "contend.py"), []byte(contendPy), 0o644); err != nil {
		return r, err
	}
	source := filepath.Join(dir, "Contend.java")
	if err := os.WriteFile(source, []byte(contendJava), 0o644); err != nil {
		return r, err
	}
	home := os.Getenv("CURATOR_JARS")
	if home == "" {
		home = debianJava
	}
	var jars []string
	for _, name := range []string{"curator-recipes", "curator-framework", "curator-client"} {
		found, _ := filepath.Glob(filepath.Join(home, name+"-[0-9]*.jar"))
		if len(found) == 0 {
			return r,
				errors.New("no Curator: apt-get install libcurator-recipes-java, or set CURATOR_JARS to its folder")
		}
		r.curator = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), name+"-"), ".jar")
		jars = append(jars, found[0])
	}
	for _, name := range []string{
		"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "guava", "failureaccess",
		"netty-all",
	} {
		jars = append(jars, filepath.Join(debianJava, name+".jar"))
	}
	path := strings.Join(append(jars, dir), string(os.PathListSeparator))
	said, err := exec.CommandContext(ctx, "javac", "-cp", path, "-d", dir, source).CombinedOutput()
	if err != nil {
		return r, fmt.Errorf("javac (apt-get install default-jdk-headless): %w: %s", err, said)
	}
	r.classPath = path
	return r, nil
}

// python returns the first interpreter that has redis-py. The distribution installs it for its own interpreter, which
// need not be the first on PATH. If none has it, python returns the first, and missing says why it cannot run.
func python(ctx context.Context) string {
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, program, "-c", "import redis").Run() == nil {
			return program
		}
	}
	return "python3"
}

// command returns the worker of f for t.
func (r *foreignRunner) command(ctx context.Context, f *foreign, t task) *exec.Cmd {
	args := []string{
		f.lock, t.Redis, t.ZooKeeper, t.Cell, strconv.Itoa(t.Keys), strconv.Itoa(t.Contenders),
		strconv.FormatInt(t.WarmMS, 10), strconv.FormatInt(t.RunMS, 10),
	}
	if f.script == "Contend.java" {
		return exec.CommandContext(ctx, "java",
			append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-cp", r.classPath, "Contend"}, args...)...)
	}
	return exec.CommandContext(ctx, r.python, append([]string{filepath.Join(r.dir, f.script)}, args...)...)
}

// missing returns the reason why f cannot run here, or "" and the version of its library.
func (r *foreignRunner) missing(ctx context.Context, f *foreign) (reason, version string) {
	if f.lock == "curator" {
		if r.classPath == "" {
			return "Curator or a JDK is not installed", ""
		}
		return "", r.curator
	}
	ask := "import redis; print(redis.__version__)"
	if f.lock == "kazoo" {
		ask = "import redis, kazoo.client, kazoo.version; print(kazoo.version.__version__)"
	}
	said, err := exec.CommandContext(ctx, r.python, "-c", ask).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Sprintf("python3-redis or python3-kazoo is not installed: %s", lines[len(lines)-1]), ""
	}
	return "", regexp.MustCompile(`\S+`).FindString(string(said))
}
