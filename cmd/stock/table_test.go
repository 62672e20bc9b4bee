package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/stock/internal/words"
)

// Columns begin below each other on a terminal in both languages.
func TestTableColumnsAreAligned(t *testing.T) {
	t.Parallel()
	instance := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"holder":{"who":"甲","remaining_ms":1500,"fence":7},` +
			`"waiters":[{"who":"乙-2"},{"who":"","remaining_ms":3}]}`))
	}))
	defer instance.Close()
	for lang, rows := range map[string][]struct{ args, head, last, shows string }{
		"en": {
			{"strategies", "STRATEGY", "WHAT IT IS", ""},
			{"lock ls redis-watchdog sku --url " + instance.URL, "STRATEGY", "FENCE", "holds"},
		},
		"zh": {
			{"strategies", "策略", "做法", ""},
			{"lock ls redis-watchdog sku --url " + instance.URL, "策略", "栅栏令牌", "持有"},
		},
	} {
		for _, row := range rows {
			out, errs, err := run(t.Context(), append(strings.Fields(row.args), "--lang", lang)...)
			lines := strings.Split(strings.TrimRight(out, "\n"), "\n")
			if err != nil || len(lines) < 3 || !strings.HasPrefix(lines[0], row.head+" ") ||
				!strings.HasSuffix(lines[0], row.last) || row.shows != "" && !strings.Contains(lines[1], row.shows) {
				t.Errorf("%s: %v %s\n%s", row.args, err, errs, out)
				continue
			}
			second := startOfSecond(lines[0])
			for _, line := range lines {
				if startOfSecond(line) != second {
					t.Errorf("%s: the second column is not aligned:\n%s", row.args, out)
					break
				}
			}
		}
	}
}

// startOfSecond returns the column of a terminal at which the second cell begins.
func startOfSecond(line string) int {
	first, rest, _ := strings.Cut(line, "  ")
	return words.Columns(first) + 2 + len(rest) - len(strings.TrimLeft(rest, " "))
}
