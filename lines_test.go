package stock_test

import (
	"bytes"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// No line of Go, shell, Lua or SQL has more than 120 columns, with 4 for a tab.
func TestLines(t *testing.T) {
	const columns, tab = 120, 4
	checked := 0
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if slices.Contains([]string{".git", "bin", "out"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !isSource(path, text) || bytes.HasPrefix(text, []byte("// Code generated")) {
			return nil
		}
		checked++
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimRight(line, "\r\n")
			if n := utf8.RuneCountInString(line) + (tab-1)*strings.Count(line, "\t"); n > columns {
				t.Errorf("%s:%d: %d columns, want at most %d", path, number, n, columns)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 100 {
		t.Errorf("%d files were checked, which cannot be all", checked)
	}
}

// No function of the service has more than 60 lines, from its first to its last.
func TestFunctions(t *testing.T) {
	const lines = 60
	for _, name := range slices.Concat(goFiles(t, "service"), goFiles(t, "service/*")) {
		set := token.NewFileSet()
		for _, d := range parsed(t, set, name).Decls {
			f, ok := d.(*ast.FuncDecl)
			n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1
			if ok && n > lines {
				t.Errorf("%s: %s has %d lines, want at most %d", name, f.Name.Name, n, lines)
			}
		}
	}
}

// isSource reports whether a file is Go, Lua, SQL, or a shell script, which begins with its interpreter or with a
// directive for shellcheck.
func isSource(path string, text []byte) bool {
	if slices.Contains([]string{".go", ".lua", ".sql", ".sh"}, filepath.Ext(path)) {
		return true
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	if interpreter, ok := bytes.CutPrefix(first, []byte("#!")); ok {
		return bytes.Contains(interpreter, []byte("sh"))
	}
	return bytes.HasPrefix(first, []byte("# shellcheck shell="))
}
