package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A tree knows of which files each tested package is built.
type tree struct {
	root   string
	module string
	tested map[string]*testedPackage // by folder
}

type testedPackage struct {
	files   []string
	hash    string   // of all files of the module of which its test is built, and of go.mod
	servers bool     // its tests can start servers
	tests   []string // the names of its test funcs
}

// listed is what go list says of a package.
type listed struct {
	ImportPath, Dir                                            string
	Module                                                     *struct{ Main bool }
	GoFiles, CgoFiles, EmbedFiles, TestGoFiles, XTestGoFiles   []string
	TestEmbedFiles, XTestEmbedFiles, IgnoredGoFiles, OtherFile []string
	Deps                                                       []string
	Error                                                      *struct{ Err string }
}

// readTree asks the go command about the packages whose tests the mutants name.
func readTree(ctx context.Context, root string, mutants []*Mutant) (*tree, error) {
	t := &tree{root: root, tested: make(map[string]*testedPackage)}
	if len(mutants) == 0 {
		return t, nil
	}
	module, err := t.goList(ctx, "-m")
	if err != nil {
		return nil, err
	}
	t.module = strings.TrimSpace(string(module))
	args := []string{
		"-deps", "-test", "-e", "-json=ImportPath,Dir,Module,GoFiles,CgoFiles,EmbedFiles,TestGoFiles,XTestGoFiles," +
			"TestEmbedFiles,XTestEmbedFiles,Deps,Error",
	}
	for _, m := range mutants {
		if arg := "./" + m.testPackage(); !slices.Contains(args, arg) {
			args = append(args, arg)
		}
	}
	out, err := t.goList(ctx, args...)
	if err != nil {
		return nil, err
	}
	byPath := make(map[string]*listed)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		byPath[p.ImportPath] = p
	}
	for _, arg := range args[4:] {
		dir := strings.TrimPrefix(arg, "./")
		p, err := t.examine(dir, byPath)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		t.tested[dir] = p
	}
	return t, nil
}

func (t *tree) goList(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"list"}, args...)...)
	cmd.Dir = t.root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.Bytes())
	}
	return out, nil
}

// examine finds what the test of the package in dir is built of.
func (t *tree) examine(dir string, byPath map[string]*listed) (*testedPackage, error) {
	name := path.Join(t.module, dir)
	own, test := byPath[name], byPath[name+".test"]
	switch {
	case own == nil:
		return nil, errors.New("no such package")
	case own.Error != nil:
		return nil, errors.New(own.Error.Err)
	case test == nil:
		return nil, errors.New("it has no tests")
	}
	p := new(testedPackage)
	files := make(map[string]bool)
	add := func(dir string, lists ...[]string) {
		for _, list := range lists {
			for _, name := range list {
				files[filepath.Join(dir, name)] = true
			}
		}
	}
	add(t.root, []string{"go.mod"})
	add(own.Dir, own.TestGoFiles, own.XTestGoFiles, own.TestEmbedFiles, own.XTestEmbedFiles)
	for _, dep := range append(test.Deps, name) {
		dep, _, _ = strings.Cut(dep, " ") // "p [q.test]" is p as it is compiled for q's test
		p.servers = p.servers || dep == path.Join(t.module, "stack")
		if l := byPath[dep]; l != nil && l.Module != nil && l.Module.Main {
			add(l.Dir, l.GoFiles, l.CgoFiles, l.EmbedFiles)
		}
	}
	err := filepath.WalkDir(filepath.Join(own.Dir, "testdata"), func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "rapid":
			return fmt.Errorf("%s holds failures of earlier runs, which may kill a mutant: remove it", name)
		case entry.Type().IsRegular():
			files[name] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.files = sorted(files)
	p.hash, p.tests, err = t.read(p.files)
	return p, err
}

// read returns the hash of files, and the names of the test funcs in those that are tests.
func (t *tree) read(files []string) (hash string, tests []string, err error) {
	sum := sha256.New()
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", nil, err
		}
		short, err := filepath.Rel(t.root, name)
		if err != nil {
			return "", nil, err
		}
		fmt.Fprintf(sum, "%q %x\n", filepath.ToSlash(short), sha256.Sum256(text))
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, testsIn(string(text))...)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), tests, nil
}

// unchanged fails if files of the package were changed since the tree was read: what is seen now is of other files.
func (t *tree) unchanged(dir string) error {
	p := t.tested[dir]
	if hash, _, err := t.read(p.files); err != nil || hash != p.hash {
		return fmt.Errorf("the files of %s have changed meanwhile: run it again with --resume", dir)
	}
	return nil
}

func sorted(set map[string]bool) []string {
	var list []string
	for name := range set {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// served reports whether the tests of a package can start servers, and so take long.
func (t *tree) served(dir string) bool { return t.tested[dir].servers }

// key is the hash of the mutant and of all that its result depends on.
func (t *tree) key(m *Mutant) string {
	sum := sha256.Sum256([]byte(m.id() + t.tested[m.testPackage()].hash))
	return fmt.Sprintf("%x", sum[:12])
}
