package starter_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/internal/starter"
	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
)

// What cannot be written is refused with the reason, in both languages, and nothing is written.
func TestWhatCannotBeWritten(t *testing.T) {
	for _, row := range []struct{ module, en, zh string }{
		{"orders", "is no module path", "不是模块路径"},
		{"github.com/acme/x/v1", "is no module path", "不是模块路径"},
		{"github.com/acme/.x", "leading dot", "不是模块路径"},
		{"github.com/acme/Orders", "names the program", "最后一段是程序名"},
		{"github.com/acme/1a", "begin with a letter", "以字母开头"},
		{"github.com/acme/" + strings.Repeat("x", 33), "at most 32 characters", "最多 32 个字符"},
		{"github.com/vendor/x", `has the element "vendor"`, `含有 "vendor"`},
		{"github.com/acme/_x/y", `has the element "_x"`, `含有 "_x"`},
		{"github.com/gin-gonic/gin", "needs the module", "要用到这个名字"},
		{"example.com/stock/app", "this project's own", "本项目自己的"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		err := starter.New(dir, starter.Choice{Module: row.module})
		says(t, err, row.en, row.zh)
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: something was written", row.module)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	says(t, starter.New(dir, starter.Choice{Module: "github.com/acme/x"}), "has mine", "里面有 mine")
}

func says(t *testing.T, err error, en, zh string) {
	t.Helper()
	if err == nil {
		t.Errorf("it was written, want %q", en)
		return
	}
	if said := words.Of(err); !strings.Contains(said.EN, en) || !strings.Contains(said.ZH, zh) {
		t.Errorf("%q and %q, want %q and %q", said.EN, said.ZH, en, zh)
	}
}

// Every text is there in both languages, and is said.
func TestTheErrorsHaveTheirTexts(t *testing.T) {
	wordstest.Catalogue(t, words.NewPhrasebook(os.DirFS("."), "text"), map[string]wordstest.Speaker{"Error": {}})
}

// A service imports itself and modules only. internal/starter/try compiles and tests it.
func TestNew(t *testing.T) {
	for name, c := range map[string]starter.Choice{
		"all": {Module: "github.com/acme/orders"}, "less": {Module: "github.com/acme/shop/v2", WithoutDeploy: true},
		"lock": {Module: "example.org/eu.shop", WithLock: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := starter.New(dir, c); err != nil {
				t.Fatal(err)
			}
			program := map[string]string{"all": "orders", "less": "shop", "lock": "eu.shop"}[name]
			for path, want := range map[string]bool{
				"cmd/" + program + "/main.go": true, "go.mod": true, "README.md": true,
				".github/workflows/ci.yml": true,
				"deploy/compose.yaml":      !c.WithoutDeploy, "lock/redislock/watchdog.go": c.WithLock, "orders": false,
			} {
				if _, err := os.Stat(filepath.Join(dir, path)); (err == nil) != want {
					t.Errorf("%s is there: %v, want %v", path, err == nil, want)
				}
			}
			importsAreThere(t, dir, c.Module)
		})
	}
}

func importsAreThere(t *testing.T, dir, module string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			if inside, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module+"/"); ours {
				if _, err := os.Stat(filepath.Join(dir, inside)); err != nil {
					t.Errorf("%s imports %s, which is not there", path, inside)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
