package main

import (
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The wrong shop is proved wrong and the right one is not accused, however little the API reports.
func TestShop(t *testing.T) {
	for _, row := range []struct {
		mapping string
		fixed   bool
		finding loadtest.Finding
		limits  int
	}{
		{"mapping.yaml", false, loadtest.Broken, 1},
		{"mapping.yaml", true, loadtest.Holds, 1},
		{"mapping-least.yaml", false, loadtest.Broken, 2},
		{"mapping-least.yaml", true, loadtest.Holds, 2},
	} {
		name := row.mapping + " wrong"
		if row.fixed {
			name = row.mapping + " fixed"
		}
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(row.mapping)
			if err != nil {
				t.Fatal(err)
			}
			file, err := mapping.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(newShop(row.fixed))
			defer server.Close()
			target, err := mapping.NewTarget(server.URL, "", 30, file)
			if err != nil {
				t.Fatal(err)
			}
			defer target.Close()
			// Twice if orders are listed: the orders of the first run do not belong to the second.
			for range 3 - row.limits {
				var history strings.Builder
				r, err := loadtest.Run(t.Context(), target, loadtest.Plan{
					Recheck:  new(time.Duration),
					Strategy: file.Name(), Stock: 100, Requests: 240, Concurrency: 30, History: &history,
				}, nil)
				if err != nil {
					t.Fatal(err)
				}
				v := &r.Verdict
				if v.Finding != row.finding || len(v.Limits) != row.limits || v.Failed+v.Unknown+v.Foreign > 0 ||
					v.Accepted+v.SoldOut != 240 {
					t.Errorf("%+v", v)
				}
				if told := row.limits == 1; !row.fixed && (v.LostUnits < 1 || told != (v.Collisions > 0)) {
					t.Errorf("lost %d, collisions %d", v.LostUnits, v.Collisions)
				}
				h, err := loadtest.ReadHistory(strings.NewReader(history.String()))
				if err != nil {
					t.Fatal(err)
				}
				if again := h.Judge(); again.Finding != v.Finding || again.LostUnits != v.LostUnits ||
					again.Collisions != v.Collisions ||
					len(again.Limits) != row.limits {
					t.Errorf("the history is judged as %+v", again)
				}
			}
		})
	}
}
