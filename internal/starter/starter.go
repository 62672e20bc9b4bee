// Package starter generates an order service: the profile "orders" of this project, with the chosen stores and locks,
// its tests, and the files to run it.
//
// manifest.yaml lists the files that are copied. In copied Go code only the import paths, the prefix of the environment
// and the name of the program change. Code that does not fit is in separate files of this project, or is generated from
// a template below files/.
//
// Errors that a user can correct have texts in both languages. Others, such as a missing file of the manifest, are
// faults of this project.
package starter

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	stock "example.com/stock"
	"example.com/stock/internal/words"
)

//go:embed manifest.yaml all:files text
var files embed.FS

var phrases = words.NewPhrasebook(files, "text")

// ourModule is the module path that is replaced.
const ourModule = "example.com/stock"

// Record is the name of the file that records the version, the choices and the digests of a generated service.
const Record = ".stock.json"

// Strategies returns the strategies of orders: without a lock, or by the lock's name.
func Strategies() []string { return []string{"atomic", "redis-watchdog", "zk-sequential"} }

// Stores returns the stores of orders.
func Stores() []string { return []string{"mysql", "redis"} }

// A Choice has the parameters of a service to generate.
type Choice struct {
	Module     string   `json:"module"`     // its path, such as github.com/acme/orders
	Strategies []string `json:"strategies"` // of Strategies; the first is the default of the service
	Stores     []string `json:"stores"`     // of Stores; the first is the default of the service
	With       []string `json:"with"`       // of Additional: the parts that are added
	Version    string   `json:"version"`    // of this program, to be recorded
}

// Check returns an error for every invalid parameter.
func (c Choice) Check() error {
	var bad []error
	no := func(err error) { bad = append(bad, err) }
	if err := module.CheckPath(c.Module); err != nil {
		no(phrases.Error("no-module", "path", c.Module, "why", reason(err)))
	} else if err := c.checkName(); err != nil {
		no(err)
	}
	choose := func(flag string, names, known []string) {
		all := strings.Join(known, ", ")
		for i, name := range names {
			switch {
			case !slices.Contains(known, name):
				no(phrases.Error("unknown", "flag", flag, "name", name, "known", all))
			case slices.Contains(names[:i], name):
				no(phrases.Error("twice", "flag", flag, "name", name))
			}
		}
	}
	some := func(flag string, names, known []string) {
		if len(names) == 0 {
			no(phrases.Error("none", "flag", flag, "known", strings.Join(known, ", ")))
		}
		choose(flag, names, known)
	}
	some("strategies", c.Strategies, Strategies())
	some("stores", c.Stores, Stores())
	choose("with", c.With, Additional())
	if f := c.features(); f["handover"] && !f["lock"] {
		no(phrases.Error("no-lock", "known", strings.Join(Strategies()[1:], ", ")))
	}
	return errors.Join(bad...)
}

// goodName matches names from which those of a program, environment variables, an image and a Compose service can be
// derived.
var goodName = regexp.MustCompile(`^[a-z][a-z0-9]*([._-][a-z0-9]+)*$`)

// longestName is the limit for users of MySQL.
const longestName = 32

// takenNames returns the names that a program cannot have: servers of the composition, existing databases and users of
// MySQL, and a reserved image of Docker.
func takenNames() []string {
	return []string{
		"grafana", "information_schema", "mysql", "nginx", "performance_schema", "prometheus", "redis", "root",
		"scratch", "sys", "zookeeper",
	}
}

// checkName returns an error for a valid module path that no service can have.
func (c Choice) checkName() error {
	name := c.name()
	for _, element := range strings.Split(c.Module, "/") {
		// The go command treats packages below vendor as copies of other modules, and ignores cmd/testdata.
		if element == "vendor" || element == "testdata" || strings.HasPrefix(element, "_") {
			return phrases.Error("ignored", "path", c.Module, "element", element)
		}
	}
	switch {
	case !goodName.MatchString(name) || len(name) > longestName:
		return phrases.Error("program", "path", c.Module, "name", name, "most", longestName)
	case slices.Contains(takenNames(), c.metric()):
		return phrases.Error("taken", "path", c.Module, "name", name)
	case c.Module == ourModule || strings.HasPrefix(c.Module, ourModule+"/"):
		return phrases.Error("ours", "path", c.Module)
	}
	text, err := stock.Source.ReadFile("go.mod")
	if err != nil {
		return err
	}
	needs, err := modfile.ParseLax("go.mod", text, nil)
	if err != nil {
		return err
	}
	for _, need := range needs.Require {
		if need.Mod.Path == c.Module {
			return phrases.Error("needed", "path", c.Module)
		}
	}
	return nil
}

// reason returns the part of an error of package module that does not repeat the path.
func reason(err error) error {
	if invalid, ok := errors.AsType[*module.InvalidPathError](err); ok {
		return invalid.Err
	}
	return err
}

// name returns the name of the program: the last element of the module's path that is not a version.
func (c Choice) name() string {
	prefix, _, _ := module.SplitPathVersion(c.Module)
	return path.Base(prefix)
}

// Additional returns the parts that a service has only if they are asked for: each would be a twentieth of its code.
func Additional() []string { return []string{"traces", "handover"} }

// has reports whether c has all features of a condition. "!lock" is true without a lock.
func (c Choice) has(when []string) bool {
	features := c.features()
	return !slices.ContainsFunc(when, func(f string) bool {
		f, not := strings.CutPrefix(f, "!")
		return features[f] == not
	})
}

// features returns the features that conditions of the manifest can name, and whether c has them.
func (c Choice) features() map[string]bool {
	lock := slices.ContainsFunc(c.Strategies, func(name string) bool { return name != "atomic" })
	f := map[string]bool{
		"lock": lock, "redis": slices.Contains(c.Strategies, "redis-watchdog") || slices.Contains(c.Stores, "redis"),
		"zookeeper": slices.Contains(c.Strategies, "zk-sequential"),
	}
	for _, name := range c.Strategies {
		f[name] = true
	}
	for _, name := range c.Stores {
		f[name+"-store"] = true
	}
	for _, name := range Additional() {
		f[name] = slices.Contains(c.With, name)
	}
	return f
}

// A rule is one entry of the manifest.
type rule struct {
	When  []string
	Take  []string
	Write map[string]string
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

// files returns all files of the service, by path.
func (c Choice) files() (map[string][]byte, error) {
	text, err := files.ReadFile("manifest.yaml")
	if err != nil {
		return nil, err
	}
	rules, err := manifest(text)
	if err != nil {
		return nil, err
	}
	made := make(map[string][]byte)
	for _, r := range rules {
		if !c.has(r.When) {
			continue
		}
		names, err := taken(r.Take)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			text, err := stock.Source.ReadFile(name)
			if err != nil {
				return nil, err
			}
			to := strings.Replace(name, "cmd/stock/", "cmd/"+c.name()+"/", 1)
			made[to] = c.rename(name, text)
		}
		for from, to := range r.Write {
			text, err := c.fill(from)
			if err != nil {
				return nil, err
			}
			made[strings.ReplaceAll(to, "NAME", c.name())] = text
		}
	}
	if made[document], err = c.openAPI(string(made[problems])); err != nil {
		return nil, err
	}
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := stock.Source.ReadFile(name)
		if err != nil {
			return nil, err
		}
		made[name] = bytes.Replace(text, []byte("module "+ourModule+"\n"), []byte("module "+c.Module+"\n"), 1)
	}
	for name, text := range made {
		if bytes.Contains(text, []byte(ourModule)) {
			return nil, fmt.Errorf("%s still names %s", name, ourModule)
		}
	}
	made[Record] = c.record(made)
	return made, nil
}

// manifest reads the rules. An unknown condition is an error, because its files would be missing from every service.
func manifest(text []byte) (rules []rule, err error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&rules); err != nil {
		return nil, fmt.Errorf("manifest.yaml: %w", err)
	}
	known := Choice{Strategies: Strategies(), Stores: Stores(), With: Additional()}.features()
	for _, r := range rules {
		for _, feature := range r.When {
			if !known[strings.TrimPrefix(feature, "!")] {
				return nil, fmt.Errorf("manifest.yaml: there is no choice %s", feature)
			}
		}
	}
	return rules, nil
}

// taken returns the files that match the patterns. A folder, with "/" at its end, matches its files without tests. Each
// pattern must match at least one file.
func taken(patterns []string) ([]string, error) {
	found := make(map[string]bool)
	for _, pattern := range patterns {
		pattern, out := strings.CutPrefix(pattern, "!")
		folder := strings.HasSuffix(pattern, "/")
		if folder {
			pattern += "*.*"
		}
		names, err := fs.Glob(stock.Source, pattern)
		names = slices.DeleteFunc(names, func(name string) bool {
			return folder && strings.HasSuffix(name, "_test.go")
		})
		if err != nil || len(names) == 0 {
			return nil, errors.Join(fmt.Errorf("manifest.yaml: there is no %s", pattern), err)
		}
		for _, name := range names {
			found[name] = !out
		}
	}
	maps.DeleteFunc(found, func(_ string, in bool) bool { return !in })
	return slices.Sorted(maps.Keys(found)), nil
}

// commands matches commands of this program in texts.
var commands = regexp.MustCompile(`\bstock (serve|config|migrate|relay|audit|token|healthcheck)\b`)

// rename adapts a file of this project to the new service.
func (c Choice) rename(name string, text []byte) []byte {
	switch ext := path.Ext(name); {
	default:
		return text
	case ext == ".yaml":
		return commands.ReplaceAll(bytes.ReplaceAll(text, []byte("STOCK_"), []byte(c.env())), []byte(c.name()+" $1"))
	case ext == ".go":
	}
	text = bytes.ReplaceAll(text, []byte(`"`+ourModule+`/`), []byte(`"`+c.Module+`/`))
	text = bytes.ReplaceAll(text, []byte("/internal/stack/stacktest\""), []byte("/stacktest\""))
	if strings.HasPrefix(name, "app/traces/") { // the names of the tracer, the service and its attributes
		text = bytes.ReplaceAll(text, []byte(`"`+ourModule+`"`), []byte(`"`+c.Module+`"`))
		text = bytes.ReplaceAll(text, []byte(`ServiceName("stock")`), []byte(`ServiceName("`+c.name()+`")`))
		text = bytes.ReplaceAll(text, []byte(`"stock.`), []byte(`"`+c.metric()+"."))
	}
	text = bytes.ReplaceAll(text, []byte("STOCK_"), []byte(c.env()))
	text = bytes.ReplaceAll(text, []byte(`Namespace: "stock"`), []byte(`Namespace: "`+c.metric()+`"`))
	return commands.ReplaceAll(text, []byte(c.name()+" $1"))
}

var noWord = regexp.MustCompile(`[^a-z0-9]+`)

// metric returns the prefix of the names of metrics.
func (c Choice) metric() string { return noWord.ReplaceAllString(c.name(), "_") }

// env returns the prefix of environment variables.
func (c Choice) env() string { return strings.ToUpper(c.metric()) + "_" }

// fill executes a template.
func (c Choice) fill(name string) ([]byte, error) {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		return nil, err
	}
	features := c.features()
	t, err := template.New(name).Delims("«", "»").Option("missingkey=error").Funcs(template.FuncMap{
		"if_":  func(feature string) bool { return features[feature] },
		"from": c.from,
		"join": func(list []string, with string) string { return strings.Join(list, with) },
		"quote": func(list []string) string {
			quoted := make([]string, len(list))
			for i, one := range list {
				quoted[i] = fmt.Sprintf("%q", one)
			}
			return strings.Join(quoted, ", ")
		},
	}).Parse(string(text))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, map[string]any{
		"Module": c.Module, "Name": c.name(), "Env": c.env(), "Metric": c.metric(),
		"Version":    c.Version,
		"Strategies": c.Strategies, "Stores": c.Stores, "Strategy": c.Strategies[0], "Store": c.Stores[0],
	})
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(name, ".go.tmpl") {
		return out.Bytes(), nil
	}
	return format.Source(out.Bytes()) // conditions change the alignment of columns
}

// from returns an entry of a catalogue of this project, with its key; or only some of its members, without the key.
func (c Choice) from(name, key string, only ...string) (string, error) {
	text, err := stock.Source.ReadFile(name)
	if err != nil {
		return "", err
	}
	var kept []string
	inside, wanted := false, false
	for line := range strings.Lines(string(c.rename(name, text))) {
		switch entry, _, isKey := strings.Cut(line, ":"); {
		case line == "\n":
		case line[0] == '#':
			wanted = false
		case line[0] != ' ':
			inside = isKey && entry == key
			wanted = inside && len(only) == 0
		case inside && len(only) > 0 && line[2] != ' ':
			wanted = slices.Contains(only, strings.TrimSpace(entry))
		}
		if wanted {
			kept = append(kept, line)
		}
	}
	if len(kept) < max(1, len(only)) {
		return "", fmt.Errorf("%s has not all of %s %v", name, key, only)
	}
	return strings.TrimRight(strings.Join(kept, ""), "\n"), nil
}

// record returns the content of Record: the version, the choices, and a digest of each file.
func (c Choice) record(made map[string][]byte) []byte {
	digests := make(map[string]string, len(made))
	for name, text := range made {
		sum := sha256.Sum256(text)
		digests[name] = hex.EncodeToString(sum[:])
	}
	text, _ := json.MarshalIndent(struct { // cannot fail: all of it is text
		Choice
		Files map[string]string `json:"files"`
	}{c, digests}, "", "  ")
	return append(text, '\n')
}
