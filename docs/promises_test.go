package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/lock/locktest"
	"example.com/stock/service/strategy"
)

// With LOCKTEST_OUTCOMES the table of promises is written to PROMISES, from what a run of the suite has left in that
// folder: see docs/refresh.
func TestPromises(t *testing.T) {
	dir := os.Getenv("LOCKTEST_OUTCOMES")
	if dir == "" {
		t.Skip("it makes a table: docs/refresh promises")
	}
	text, err := table(outcomes(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(os.Getenv("PROMISES"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
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

func table(found map[[2]string]locktest.Outcome) (string, error) {
	var b, notes strings.Builder
	fmt.Fprintf(&b, `✓ passed / 通过 · – not promised / 未承诺 · ✗ known to be broken, and seen to be / 已知不成立，且实测不成立

| sentence / 条目 | rule / 规则 | %s |
|---|---|%s
`, strings.Join(locks(), " | "), strings.Repeat(":-:|", len(locks())))
	n := 0
	for _, s := range locktest.Clauses() {
		fmt.Fprintf(&b, "| %s | %s |", s.Name, s.Rule)
		for _, name := range locks() {
			o := found[[2]string{name, s.Name}]
			mark, ok := map[string]string{"passed": "✓", "not promised": "–", "broken": "✗"}[o.Found]
			if !ok {
				return "", fmt.Errorf("%s, %s: %q %s", name, s.Name, o.Found, o.Why)
			}
			if note := o.Keeps + o.Why; note != "" && o.Found != "not promised" {
				n++
				mark += fmt.Sprintf("[^%d]", n)
				fmt.Fprintf(&notes, "[^%d]: %s, %s: %s.\n", n, name, s.Name, note)
			}
			b.WriteString(" " + mark + " |")
		}
		b.WriteString("\n")
	}
	return b.String() + "\n" + notes.String(), nil
}

// outcomes are those of all packages, by strategy and sentence.
func outcomes(t *testing.T, dir string) map[[2]string]locktest.Outcome {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[[2]string]locktest.Outcome)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list []locktest.Outcome
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, o := range list {
			found[[2]string{o.Strategy, o.Clause}] = o
		}
	}
	return found
}
