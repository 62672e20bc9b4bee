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
type foreign struct{ script, way, library string }

// An abroad is what it takes to run foreign entrants.
type abroad struct {
	dir       string
	classPath string // empty: no Curator
	curator   string // its version
	python    string // that has the libraries
}

// debianJava is where Debian puts jars. CURATOR_JARS names another folder for Curator's own.
const debianJava = "/usr/share/java"

// openAbroad compiles the Java worker if there are a compiler and Curator; err says why not.
func openAbroad(ctx context.Context, dir string) (a *abroad, err error) {
	a = &abroad{dir: dir, python: python(ctx)}
	if err := os.WriteFile(filepath.Join(dir, "contend.py"), []byte(contendPy), 0o644); err != nil {
		return a, err
	}
	source := filepath.Join(dir, "Contend.java")
	if err := os.WriteFile(source, []byte(contendJava), 0o644); err != nil {
		return a, err
	}
	home := os.Getenv("CURATOR_JARS")
	if home == "" {
		home = debianJava
	}
	var jars []string
	for _, name := range []string{"curator-recipes", "curator-framework", "curator-client"} {
		found, _ := filepath.Glob(filepath.Join(home, name+"-[0-9]*.jar"))
		if len(found) == 0 {
			return a, errors.New("no Curator: apt-get install libcurator-recipes-java, or set CURATOR_JARS to its folder")
		}
		a.curator = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), name+"-"), ".jar")
		jars = append(jars, found[0])
	}
	for _, name := range []string{"zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop", "guava", "failureaccess", "netty-all"} {
		jars = append(jars, filepath.Join(debianJava, name+".jar"))
	}
	path := strings.Join(append(jars, dir), string(os.PathListSeparator))
	said, err := exec.CommandContext(ctx, "javac", "-cp", path, "-d", dir, source).CombinedOutput()
	if err != nil {
		return a, fmt.Errorf("javac (apt-get install default-jdk-headless): %w: %s", err, said)
	}
	a.classPath = path
	return a, nil
}

// python is the first interpreter that has redis-py: the distribution installs it for its own, which need not be the first on PATH.
// Where none has it, it is the first, and missing tells why.
func python(ctx context.Context) string {
	for _, program := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, program, "-c", "import redis").Run() == nil {
			return program
		}
	}
	return "python3"
}

// command is the worker of f for t.
func (a *abroad) command(ctx context.Context, f *foreign, t task) *exec.Cmd {
	args := []string{
		f.way, t.Redis, t.ZooKeeper, t.Cell, strconv.Itoa(t.Keys), strconv.Itoa(t.Contenders),
		strconv.FormatInt(t.WarmMS, 10), strconv.FormatInt(t.RunMS, 10),
	}
	if f.script == "Contend.java" {
		return exec.CommandContext(ctx, "java", append([]string{"-Xmx256m", "-XX:+UseSerialGC", "-cp", a.classPath, "Contend"}, args...)...)
	}
	return exec.CommandContext(ctx, a.python, append([]string{filepath.Join(a.dir, f.script)}, args...)...)
}

// missing says why f cannot run here, or "" if it can, and which version it would be.
func (a *abroad) missing(ctx context.Context, f *foreign) (reason, version string) {
	if f.way == "curator" {
		if a.classPath == "" {
			return "Curator or a JDK is not installed", ""
		}
		return "", a.curator
	}
	ask := "import redis; print(redis.__version__)"
	if f.way == "kazoo" {
		ask = "import redis, kazoo.client, kazoo.version; print(kazoo.version.__version__)"
	}
	said, err := exec.CommandContext(ctx, a.python, "-c", ask).CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		return fmt.Sprintf("python3-redis or python3-kazoo is not installed: %s", lines[len(lines)-1]), ""
	}
	return "", regexp.MustCompile(`\S+`).FindString(string(said))
}
