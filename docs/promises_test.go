// Package docs_test keeps what is written here true.
package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/stock/lock/locktest"
	"example.com/stock/service/strategy"
)

const promises = "promises.md"

// The table of promises has a row for every sentence of the suite and a column for every lock of the catalogue. With
// LOCKTEST_OUTCOMES it is made anew from what a run has found in that folder: see docs/refresh.
func TestPromises(t *testing.T) {
	if dir := os.Getenv("LOCKTEST_OUTCOMES"); dir != "" {
		text, err := render(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(promises, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(promises)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); strings.HasPrefix(line, "|") {
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			rows = append(rows, cells)
		}
	}
	const fix = "run docs/refresh promises"
	if len(rows) < 2 {
		t.Fatalf("%s has no table: %s", promises, fix)
	}
	if want := locks(); !slices.Equal(rows[0][2:], want) {
		t.Errorf("its columns are %v, the catalogue's locks are %v: %s", rows[0][2:], want, fix)
	}
	if got, want := len(rows)-2, len(locktest.Clauses()); got != want {
		t.Fatalf("it has %d rows, the suite has %d sentences: %s", got, want, fix)
	}
	for i, s := range locktest.Clauses() {
		row := rows[i+2]
		if row[0] != s.Name || row[1] != s.Rule {
			t.Errorf("row %d is %s, %q; the suite has %s, %q: %s", i+1, row[0], row[1], s.Name, s.Rule, fix)
		}
		for _, cell := range row[2:] {
			if mark, _, _ := strings.Cut(cell, "["); mark != "✓" && mark != "–" && mark != "✗" {
				t.Errorf("%s: a cell says %q", s.Name, cell)
			}
		}
	}
}

// locks are the strategies that are a lock and nothing else.
func locks() (names []string) {
	for _, s := range strategy.All() {
		if s.Lock != nil && s.Around == nil {
			names = append(names, s.Name)
		}
	}
	return names
}

func render(dir string) (string, error) {
	found, err := outcomes(dir)
	if err != nil {
		return "", err
	}
	var b, notes strings.Builder
	fmt.Fprintf(&b, `# Promises / 承诺

What the conformance suite found when it put every lock of the catalogue to real servers, in several processes that it
killed, paused and cut off. Made by `+"`docs/refresh promises`"+`; nothing here is typed by hand.

一致性测试套件在真实服务器上、用多个会被杀死、暂停、断网的进程逐条验证的结果。由 `+"`docs/refresh promises`"+` 生成，没有一处手写。

✓ passed / 通过 · – not promised / 未承诺 · ✗ known to be broken, and seen to be / 已知不成立，且实测不成立

| sentence / 条目 | rule / 规则 | %s |
|---|---|%s
`, strings.Join(locks(), " | "), strings.Repeat(":-:|", len(locks())))
	n := 0
	for _, s := range locktest.Clauses() {
		fmt.Fprintf(&b, "| %s | %s |", s.Name, s.Rule)
		for _, name := range locks() {
			switch o := found[[2]string{name, s.Name}]; o.Found {
			case "passed":
				b.WriteString(" ✓")
				if o.Keeps != "" {
					n++
					fmt.Fprintf(&b, "[^%d]", n)
					fmt.Fprintf(&notes, "[^%d]: %s, %s: %s.\n", n, name, s.Name, o.Keeps)
				}
				b.WriteString(" |")
			case "not promised":
				b.WriteString(" – |")
			case "broken":
				n++
				fmt.Fprintf(&b, " ✗[^%d] |", n)
				fmt.Fprintf(&notes, "[^%d]: %s, %s: %s.\n", n, name, s.Name, o.Why)
			case "failed":
				return "", fmt.Errorf("%s failed %s: %s", name, s.Name, o.Why)
			default:
				return "", fmt.Errorf("%s was not put to %s", name, s.Name)
			}
		}
		b.WriteString("\n")
	}
	if n > 0 {
		b.WriteString("\n" + notes.String())
	}
	return b.String(), nil
}

// outcomes are those of all packages, by strategy and sentence.
func outcomes(dir string) (map[[2]string]locktest.Outcome, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	found := make(map[[2]string]locktest.Outcome)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var list []locktest.Outcome
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, o := range list {
			found[[2]string{o.Strategy, o.Clause}] = o
		}
	}
	return found, nil
}
