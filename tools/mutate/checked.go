package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// A source is the packages of which mutants are made by operators, and the packages that test them.
type source struct {
	root, module string
	packages     map[string]*sourcePackage // by folder
	testers      map[string][]string       // the folders of the packages whose tests are built with a package
	importer     types.Importer
}

type sourcePackage struct {
	name  string
	files map[string]string // texts, by name
}

// readSource reads packages, and asks the go command who tests them: packages of these and of folders in them, and of
// commands.
func readSource(ctx context.Context, root string, folders []string) (*source, error) {
	s := &source{root: root, packages: make(map[string]*sourcePackage), testers: make(map[string][]string)}
	t := &tree{root: root}
	module, err := t.goList(ctx, "-m")
	if err != nil {
		return nil, err
	}
	s.module = strings.TrimSpace(string(module))
	var own, all []string
	for _, dir := range folders {
		own, all = append(own, "./"+dir), append(all, "./"+dir+"/...")
	}
	if commands, err := os.Stat(filepath.Join(root, "cmd")); err == nil && commands.IsDir() {
		all = append(all, "./cmd/...") // their tests use everything
	}
	exports := make(map[string]string)
	type listing struct {
		ImportPath, Name, Dir, Export, ForTest string
		GoFiles, Deps                          []string
		DepOnly                                bool
	}
	list := func(take func(listing) error, args ...string) error {
		out, err := t.goList(ctx, args...)
		if err != nil {
			return err
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p listing
			if err := d.Decode(&p); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := take(p); err != nil {
				return err
			}
		}
	}
	err = list(func(p listing) error {
		exports[p.ImportPath] = p.Export
		if p.DepOnly {
			return nil
		}
		pkg := &sourcePackage{name: p.Name, files: make(map[string]string)}
		for _, name := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				return err
			}
			pkg.files[name] = string(text)
		}
		s.packages[s.folder(p.ImportPath)] = pkg
		return nil
	}, append([]string{"-export", "-deps", "-json=ImportPath,Name,Dir,Export,GoFiles,DepOnly"}, own...)...)
	if err != nil {
		return nil, err
	}
	err = list(func(p listing) error {
		tester, is := strings.CutSuffix(p.ImportPath, ".test")
		if !is {
			return nil
		}
		for _, dep := range append(p.Deps, tester) {
			dep, _, _ := strings.Cut(dep, " ") // "p [q.test]" is p as it is compiled for q's test
			dir, to := s.folder(dep), s.folder(tester)
			if s.packages[dir] != nil && !slices.Contains(s.testers[dir], to) {
				s.testers[dir] = append(s.testers[dir], to)
			}
		}
		return nil
	}, append([]string{"-test", "-json=ImportPath,Deps"}, all...)...)
	s.importer = importer.ForCompiler(token.NewFileSet(), "gc", func(name string) (io.ReadCloser, error) {
		if exports[name] == "" {
			return nil, fmt.Errorf("no export data of %s", name)
		}
		return os.Open(exports[name])
	})
	return s, err
}

func (s *source) folder(importPath string) string {
	return strings.TrimPrefix(strings.TrimPrefix(importPath, s.module), "/")
}

// check type-checks a package with some texts in place of its own.
func (s *source) check(dir string, texts map[string]string) (*token.FileSet, map[string]*ast.File, *types.Info, error) {
	set, files := token.NewFileSet(), make(map[string]*ast.File)
	all := maps.Clone(s.packages[dir].files)
	maps.Copy(all, texts)
	var list []*ast.File
	for _, name := range slices.Sorted(maps.Keys(all)) {
		file, err := parser.ParseFile(set, name, all[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, nil, err
		}
		files[name] = file
		list = append(list, file)
	}
	info := &types.Info{
		Types: make(map[ast.Expr]types.TypeAndValue), Defs: make(map[*ast.Ident]types.Object),
		Implicits: make(map[ast.Node]types.Object),
	}
	conf := types.Config{Importer: s.importer}
	_, err := conf.Check(path.Join(s.module, dir), set, list, info)
	return set, files, info, err
}

// changes returns what the operators change in all packages, in the order of folder, file and place.
func (s *source) changes() (all []*change, err error) {
	for _, dir := range slices.Sorted(maps.Keys(s.packages)) {
		set, files, info, err := s.check(dir, nil)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		for _, name := range slices.Sorted(maps.Keys(files)) {
			all = append(all, operate(set, files[name], info, change{pkg: dir, file: name})...)
		}
	}
	return all, nil
}

func (s *source) text(c *change) string { return s.packages[c.pkg].files[c.file] }

// compiles reports whether a change compiles, and whether it does in a program that can have it and not have it.
func (s *source) compiles(c *change) (plain, switchable bool) {
	text := s.text(c)
	_, _, _, err := s.check(c.pkg, map[string]string{c.file: c.changed(text, 0, len(text))})
	if err != nil {
		return false, false
	}
	_, _, _, err = s.check(c.pkg, map[string]string{
		c.file: switched(text, []*change{c}), switchFile: fmt.Sprintf(switchSource, s.packages[c.pkg].name),
	})
	return true, err == nil
}

// overlay writes, into a folder, the packages with all these changes in them, each of which can be on, and what tells
// which funcs are reached. It returns the file for go build -overlay.
func (s *source) overlay(place string, probes, changes []*change) (string, error) {
	type key struct{ dir, file string }
	byFile := make(map[key][]*change)
	for _, c := range slices.Concat(probes, changes) {
		byFile[key{c.pkg, c.file}] = append(byFile[key{c.pkg, c.file}], c)
	}
	texts := make(map[string]string)
	for k, list := range byFile {
		dir := filepath.Join(s.root, filepath.FromSlash(k.dir))
		texts[filepath.Join(dir, k.file)] = switched(s.packages[k.dir].files[k.file], list)
		texts[filepath.Join(dir, switchFile)] = fmt.Sprintf(switchSource, s.packages[k.dir].name)
	}
	return writeOverlay(place, texts)
}

const switchFile = "zz_mutant.go"
