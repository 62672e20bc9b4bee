package repair_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/service/repair"
)

// example is a plan as Make writes it, with one SKU that a person must choose for.
const example = `{
  "version": 1,
  "plan": "repair-PLAN",
  "store": {"name": "mysql", "origin": "abc"},
  "made_at": "2026-11-26T03:00:00Z",
  "skus": [
    {
      "sku": "book",
      "counters": {"received": 105, "available": 95, "reserved": 3, "sold": 7},
      "number": 9,
      "movements": {"received": 100, "available": 90, "reserved": 3, "sold": 7},
      "last": 9,
      "damage": [],
      "held": 3,
      "ordered": 7,
      "options": [
        {
          "believe": "counters",
          "counters": {"received": 105, "available": 95, "reserved": 3, "sold": 7},
          "adjust": {"received": 5, "available": 5, "reserved": 0, "sold": 0}
        },
        {
          "believe": "movements",
          "counters": {"received": 100, "available": 90, "reserved": 3, "sold": 7},
          "adjust": {"received": 0, "available": 0, "reserved": 0, "sold": 0}
        }
      ],
      "choice": ""
    }
  ]
}`

// planID is the id of example: it must not change while the version is 1, or old plans could not be read.
const planID = "repair-b78d9e6affe5b796"

func TestParse(t *testing.T) {
	good := strings.Replace(example, "repair-PLAN", planID, 1)
	p, err := repair.Parse(strings.NewReader(good))
	if err != nil || len(p.SKUs) != 1 || !p.Made.Equal(time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)) {
		t.Fatalf("%v, %+v", err, p)
	}
	for name, row := range map[string]struct{ code, old, with string }{
		"nothing":              {repair.NotJSON, good, ""},
		"no JSON":              {repair.NotJSON, good, "plan"},
		"a list":               {repair.NotJSON, good, "[]"},
		"half":                 {repair.NotJSON, "\n}", ""},
		"two":                  {repair.NotJSON, good, good + good},
		"a field of others":    {repair.NotJSON, `"choice"`, `"force": true, "choice"`},
		"a fraction":           {repair.NotJSON, `"held": 3`, `"held": 3.5`},
		"another version":      {repair.WrongVersion, `"version": 1`, `"version": 2, "new": 1`},
		"no version":           {repair.WrongVersion, `"version": 1,`, ``},
		"an edited counter":    {repair.Edited, `"held": 3`, `"held": 4`},
		"an edited number":     {repair.Edited, `"number": 9`, `"number": 10`},
		"an edited adjustment": {repair.Edited, `"adjust": {"received": 5`, `"adjust": {"received": 6`},
		"an edited choice":     {repair.Edited, `"choice": ""`, `"choice": "counters"`},
		"an edited store":      {repair.Edited, `"abc"`, `"abd"`},
		"an edited time":       {repair.Edited, `03:00:00Z`, `04:00:00Z`},
		"another id":           {repair.Edited, planID, "repair-0000000000000000"},
		"no SKU":               {repair.BadSKU, `"sku": "book"`, `"sku": ""`},
		"a bad SKU":            {repair.BadSKU, `"sku": "book"`, `"sku": "a/b"`},
		"too much":             {repair.BadNumber, `"held": 3`, `"held": 9007199254740993`},
		"far too little":       {repair.BadNumber, `"sold": 7`, `"sold": -9223372036854775808`},
		"a large number":       {repair.BadNumber, `"last": 9`, `"last": 18446744073709551615`},
		"huge":                 {repair.TooLarge, "\n}", strings.Repeat(" ", repair.MaxPlan) + "}"},
	} {
		var is *repair.PlanError
		_, err := repair.Parse(strings.NewReader(strings.Replace(good, row.old, row.with, 1)))
		if !errors.As(err, &is) || is.Code != row.code {
			t.Errorf("%s: %v, want %s", name, err, row.code)
		}
	}
	twice := p
	twice.SKUs = append(twice.SKUs, twice.SKUs[0])
	var is *repair.PlanError
	if _, err := repair.Parse(file(t, twice)); !errors.As(err, &is) || is.Code != repair.BadSKU {
		t.Errorf("a SKU twice: %v", err)
	}
}

// A plan that is accepted is one that Make could have written: each option obeys the law, and makes the movements add
// up to the counters.
func FuzzParse(f *testing.F) {
	f.Add([]byte(strings.Replace(example, "repair-PLAN", planID, 1)))
	f.Add([]byte(example))
	f.Add([]byte(`{"version": 1, "skus": [{"sku": "a"}]}`))
	f.Add([]byte(`{"version": 9}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := repair.Parse(bytes.NewReader(text))
		var is *repair.PlanError
		if err != nil {
			if !errors.As(err, &is) {
				t.Fatalf("%v is no PlanError", err)
			}
			return
		}
		for _, m := range p.SKUs {
			for _, o := range m.Options {
				c, a, s := o.Counters, o.Adjust, m.Movements
				if min(c.Received, c.Available, c.Reserved, c.Sold) < 0 ||
					c.Received != c.Available+c.Reserved+c.Sold ||
					c != (repair.Amounts{
						Received: s.Received + a.Received, Available: s.Available + a.Available,
						Reserved: s.Reserved + a.Reserved, Sold: s.Sold + a.Sold,
					}) {
					t.Fatalf("%+v", m)
				}
			}
		}
		if text, err := json.Marshal(p); err != nil {
			t.Fatal(err)
		} else if again, err := repair.Parse(bytes.NewReader(text)); err != nil || again.ID != p.ID {
			t.Fatalf("%v, %s", err, again.ID)
		}
	})
}
