package starter

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every choice compiles, with its tests: starter/try tests three of them on servers, and this looks at all. Packages
// that are the same in several choices are looked at once.
func TestEveryChoiceCompiles(t *testing.T) {
	t.Parallel()
	c := &compiler{fset: token.NewFileSet(), parsed: map[string]*ast.File{}, checked: map[string]*types.Package{}}
	services := make(map[string]map[string][]byte)
	outside := make(map[string]bool)
	for _, strategies := range subsets(Strategies()) {
		for _, stores := range subsets(Stores()) {
			for _, with := range [][]string{nil, Additional()} {
				choice := Choice{
					Module: "github.com/acme/orders", Strategies: strategies, Stores: stores,
					Without: Optional(), With: with,
				}
				made, err := choice.files()
				if err != nil {
					t.Fatal(err)
				}
				services[strings.Join(append(strategies, with...), ",")+" on "+strings.Join(stores, ",")] = made
				for name, text := range made {
					if path.Ext(name) != ".go" {
						continue
					}
					for _, imported := range imports(c.parse(t, name, text)) {
						if !strings.HasPrefix(imported, choice.Module+"/") {
							outside[imported] = true
						}
					}
				}
			}
		}
	}
	if len(services) != 42 {
		t.Fatalf("%d choices", len(services))
	}
	c.outside = importer.ForCompiler(c.fset, "gc", exported(t, slices.Sorted(maps.Keys(outside))))
	for _, name := range slices.Sorted(maps.Keys(services)) {
		service := service{compiler: c, t: t, name: name, made: services[name], units: map[string]unit{}}
		for dir := range service.folders() {
			for _, kind := range []string{plain, tested, outer} {
				service.compile(dir, kind)
			}
		}
	}
}

// subsets returns all choices of some of a list, in its order. To choose nothing is no choice.
func subsets(of []string) (all [][]string) {
	for bits := 1; bits < 1<<len(of); bits++ {
		var some []string
		for i, one := range of {
			if bits&(1<<i) != 0 {
				some = append(some, one)
			}
		}
		all = append(all, some)
	}
	return all
}

func imports(f *ast.File) (list []string) {
	for _, s := range f.Imports {
		imported, _ := strconv.Unquote(s.Path.Value) // it was parsed
		list = append(list, imported)
	}
	return list
}

// exported returns what the go command has compiled of packages outside of a service.
func exported(t *testing.T, packages []string) importer.Lookup {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{
		"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}",
	}, packages...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		imported, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[imported] = file
	}
	return func(imported string) (io.ReadCloser, error) { return os.Open(files[imported]) }
}

// A compiler keeps what it has found out for all choices.
type compiler struct {
	fset    *token.FileSet
	parsed  map[string]*ast.File      // by name and text
	checked map[string]*types.Package // by all that it consists of
	outside types.Importer
}

func (c *compiler) parse(t *testing.T, name string, text []byte) *ast.File {
	t.Helper()
	key := name + "\n" + string(text)
	if c.parsed[key] == nil {
		f, err := parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		c.parsed[key] = f
	}
	return c.parsed[key]
}

// A service is one choice.
type service struct {
	*compiler
	t     *testing.T
	name  string
	made  map[string][]byte
	units map[string]unit // by kind and folder
}

// folders returns those with Go files.
func (s *service) folders() map[string]bool {
	dirs := make(map[string]bool)
	for name := range s.made {
		if path.Ext(name) == ".go" {
			dirs[path.Dir(name)] = true
		}
	}
	return dirs
}

// isOf reports whether a file is one of those that are compiled for this system in a folder.
func (s *service) isOf(dir, name string) bool {
	if path.Dir(name) != dir || path.Ext(name) != ".go" {
		return false
	}
	system := build.Default
	system.OpenFile = func(string) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(s.made[name])), nil
	}
	is, err := system.MatchFile(dir, path.Base(name))
	return err == nil && is
}

// What of a folder is compiled together.
const (
	plain  = "package"
	tested = "package with its tests"
	outer  = "tests outside of the package"
)

// A unit is what was compiled together, and a digest of all that it consists of.
type unit struct {
	*types.Package
	digest string
}

// compile type-checks one unit of a folder. A fault is reported once for all choices.
func (s *service) compile(dir, kind string) unit {
	s.t.Helper()
	key := kind + " " + dir
	if _, known := s.units[key]; !known {
		s.units[key] = s.typeCheck(dir, kind)
	}
	return s.units[key]
}

func (s *service) typeCheck(dir, kind string) unit {
	s.t.Helper()
	hash := sha256.New()
	var files []*ast.File
	inside := make(map[string]*types.Package)
	for _, name := range slices.Sorted(maps.Keys(s.made)) {
		if !s.isOf(dir, name) {
			continue
		}
		f := s.parse(s.t, name, s.made[name])
		is := plain
		if strings.HasSuffix(f.Name.Name, "_test") {
			is = outer
		} else if strings.HasSuffix(name, "_test.go") {
			is = tested
		}
		if is != kind && (kind != tested || is != plain) {
			continue
		}
		files = append(files, f)
		fmt.Fprintf(hash, "%s %d\n%s", name, len(s.made[name]), s.made[name])
		for _, imported := range imports(f) {
			below, ours := strings.CutPrefix(imported, "github.com/acme/orders/")
			if !ours {
				continue
			}
			of := plain
			if below == dir {
				of = tested // tests outside of the package see what its own tests have for them
			}
			u := s.compile(below, of)
			inside[imported] = u.Package
			fmt.Fprintln(hash, imported, u.digest)
		}
	}
	digest := string(hash.Sum(nil))
	if p, known := s.checked[digest]; known || len(files) == 0 {
		return unit{p, digest}
	}
	config := types.Config{
		Importer: importing(func(imported string) (*types.Package, error) {
			if p, ours := inside[imported]; ours && p != nil {
				return p, nil
			}
			return s.outside.Import(imported)
		}),
		Error: func(err error) { s.t.Errorf("%s: %v", s.name, err) },
	}
	p, _ := config.Check("github.com/acme/orders/"+dir, s.fset, files, nil)
	s.checked[digest] = p
	return unit{p, digest}
}

type importing func(string) (*types.Package, error)

func (f importing) Import(imported string) (*types.Package, error) { return f(imported) }
