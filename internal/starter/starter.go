// Package starter writes an order service of one's own: a copy of the folder orders under another module path.
//
// Files are copied whole. In them only the module path, the folder of the command and the name of its program change.
//
// Errors that a user can correct have texts in both languages. Others are faults of this project.
package starter

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	stock "example.com/stock"
	"example.com/stock/internal/words"
	"example.com/stock/lock"
)

//go:embed text
var texts embed.FS

var phrases = words.NewPhrasebook(texts, "text")

const (
	ours    = "example.com/stock" // the module path that is replaced
	orders  = ours + "/orders"
	library = ours + "/lock"
	most    = 32 // characters of the name of a program
)

// A Choice says what is written.
type Choice struct {
	Module        string // its path, such as github.com/acme/orders
	WithoutDeploy bool   // leave out deploy/: compose, Kubernetes, alerts
	WithLock      bool   // add lock/, the lock library, with its driver for Redis
}

// usable is what can name a folder, a program and an image.
var usable = regexp.MustCompile(`^[a-z][a-z0-9]*([-_.][a-z0-9]+)*$`)

// Check returns an error for every invalid parameter.
func (c Choice) Check() error {
	if err := module.CheckPath(c.Module); err != nil {
		if invalid, ok := errors.AsType[*module.InvalidPathError](err); ok {
			err = invalid.Err
		}
		return phrases.Error("no-module", "path", c.Module, "why", err)
	}
	name := c.name()
	switch elements := strings.Split(c.Module, "/"); {
	case c.Module == ours || strings.HasPrefix(c.Module, ours+"/"):
		return phrases.Error("ours", "path", c.Module)
	case !usable.MatchString(name) || len(name) > most:
		return phrases.Error("program", "path", c.Module, "name", name, "most", most)
	default:
		i := slices.IndexFunc(elements, func(e string) bool {
			return e == "vendor" || e == "testdata" || strings.HasPrefix(e, "_")
		})
		if i >= 0 {
			return phrases.Error("ignored", "path", c.Module, "element", elements[i])
		}
	}
	file, err := goMod()
	if err != nil {
		return err
	}
	for _, r := range file.Require {
		if r.Mod.Path == c.Module {
			return phrases.Error("needed", "path", c.Module)
		}
	}
	return nil
}

// name returns the name of the program: the last element of the module's path that is not a version.
func (c Choice) name() string {
	prefix, _, _ := module.SplitPathVersion(c.Module)
	return path.Base(prefix)
}

// New writes the service into dir, which must be empty or not exist. After an error it leaves nothing behind.
func New(dir string, c Choice) error {
	if err := errors.Join(c.Check(), phrases.Check()); err != nil {
		return err
	}
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case len(list) > 0:
		return phrases.Error("not-empty", "dir", dir, "file", list[0].Name())
	}
	made, err := c.files()
	if err != nil {
		return err
	}
	return write(dir, made)
}

// files returns all files of the service, by path.
func (c Choice) files() (map[string][]byte, error) {
	made := make(map[string][]byte)
	take := func(from embed.FS, path func(name string) (to string)) error {
		return fs.WalkDir(from, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			to := path(name)
			if to == "" {
				return nil
			}
			text, err := from.ReadFile(name)
			made[to] = c.rename(text)
			return err
		})
	}
	if err := errors.Join(take(stock.Source, c.ofOrders), take(lock.Source(), c.ofLock)); err != nil {
		return nil, err
	}
	file, err := goMod()
	if err != nil {
		return nil, err
	}
	if err := file.AddModuleStmt(c.Module); err != nil {
		return nil, err
	}
	if err := errors.Join(file.DropRequire(library), file.DropReplace(library, "")); err != nil {
		return nil, err
	}
	for _, tool := range slices.Clone(file.Tool) {
		if err := file.DropTool(tool.Path); err != nil {
			return nil, err
		}
	}
	file.Cleanup()
	if made["go.mod"], err = file.Format(); err != nil {
		return nil, err
	}
	if made["go.sum"], err = stock.Source.ReadFile("go.sum"); err != nil {
		return nil, err
	}
	for name, text := range made {
		if bytes.Contains(text, []byte(ours)) {
			return nil, fmt.Errorf("%s still names %s", name, ours)
		}
	}
	return made, nil
}

// ofOrders returns the path of a file of this project, or "" if the service does not have it.
func (c Choice) ofOrders(name string) string {
	to, mine := strings.CutPrefix(name, "orders/")
	if !mine && name != "LICENSE" || c.WithoutDeploy && strings.HasPrefix(to, "deploy/") {
		return ""
	}
	return strings.Replace(to, "cmd/orders/", "cmd/"+c.name()+"/", 1)
}

// ofLock is ofOrders for a file of the lock library. Its tests need servers.
func (c Choice) ofLock(name string) string {
	if !c.WithLock || strings.HasSuffix(name, "_test.go") || name == "source.go" ||
		strings.HasPrefix(name, "driver/mysqlerr/") {
		return ""
	}
	return "lock/" + name
}

// rename adapts a file to the new service.
func (c Choice) rename(text []byte) []byte {
	for _, r := range [][2]string{
		{orders, c.Module},
		{library, c.Module + "/lock"},
		{"cmd/orders", "cmd/" + c.name()},
		{"bin/orders", "bin/" + c.name()},
	} {
		text = bytes.ReplaceAll(text, []byte(r[0]), []byte(r[1]))
	}
	return text
}

func goMod() (*modfile.File, error) {
	text, err := stock.Source.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	return modfile.Parse("go.mod", text, nil)
}

// write writes all files into dir, which may be an existing empty folder, such as the working directory.
func write(dir string, made map[string][]byte) (err error) {
	_, missing := os.Stat(dir)
	defer func() {
		if err == nil {
			return
		}
		for name := range made {
			first, _, _ := strings.Cut(name, "/")
			_ = os.RemoveAll(filepath.Join(dir, first))
		}
		if missing != nil {
			_ = os.Remove(dir)
		}
	}()
	for name, text := range made {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if bytes.HasPrefix(text, []byte("#!")) {
			mode = 0o755
		}
		if err := os.WriteFile(at, text, mode); err != nil {
			return err
		}
	}
	return nil
}
