package scenario

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/words"
	"example.com/stock/internal/words/wordstest"
	"example.com/stock/lab"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func all(t *testing.T) []lab.Scenario {
	t.Helper()
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Quick scenarios come out as predicted, with evidence: every twelfth, and none for which a cluster must be started.
// make lab runs all.
func TestQuick(t *testing.T) {
	t.Parallel()
	o := lab.Options{Binary: program.Path(t), Parent: t.TempDir()}
	quick := slices.DeleteFunc(all(t), func(s lab.Scenario) bool {
		return s.Slow || slices.Contains(s.Needs, lab.NeedGalera)
	})
	for i := 0; i < len(quick); i += 12 {
		s := quick[i]
		s.Cases = s.Cases[:1]
		o.Scenarios = append(o.Scenarios, s)
	}
	report, err := lab.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(o.Parent); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, c := range report.Cells {
		switch {
		case c.Skipped != "" && os.Getenv("REQUIRE_BACKENDS") == "1":
			t.Errorf("REQUIRE_BACKENDS=1, but %s: %s: %s", c.Scenario, c.Case(), c.Skipped)
		case c.Skipped != "":
			continue
		case !c.AsPredicted || c.Before != "":
			t.Errorf("%s: %s: %s %s\n%+v", c.Scenario, c.Case(), c.Verdict(), c.Before, c.Evidence)
		}
		if len(c.Evidence) == 0 || len(c.Events) == 0 {
			t.Errorf("%s: %s: %d pieces of evidence, %d events", c.Scenario, c.Case(), len(c.Evidence), len(c.Events))
		}
		// Code of the lab may have no orders, and its books suffice.
		proof := func(e lab.Evidence) bool {
			return e.Kind == lab.Pair || e.Kind == lab.Hold || e.Kind == lab.Balance && c.Code != ""
		}
		if c.Observed == lab.Oversells && !slices.ContainsFunc(c.Evidence, proof) {
			t.Errorf("%s: %s: oversold without a pair of orders, or two holders at once, that prove it", c.Scenario,
				c.Case())
		}
	}
}

var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// The catalogue says all that it must, in both languages. That its strategies exist is tested by a run: without one
// there is no word in docs/failure-modes.json, where a test looks for each case.
func TestTable(t *testing.T) {
	t.Parallel()
	names := make(map[string]bool)
	for _, s := range all(t) {
		if !kebab.MatchString(s.Name) || len(s.Name) > 40 || names[s.Name] {
			t.Errorf("%q is no name in kebab case with at most 40 letters, or is used twice", s.Name)
		}
		names[s.Name] = true
		if _, err := os.Stat(strings.ReplaceAll(s.Name, "-", "_") + ".go"); err != nil {
			t.Errorf("the file of %s is not named like it: %v", s.Name, err)
		}
		t.Run(s.Name, func(t *testing.T) { checkScenario(t, s) })
	}
}

func checkScenario(t *testing.T, s lab.Scenario) {
	if !slices.Contains(lab.Groups(), s.Group) {
		t.Errorf("group %q", s.Group)
	}
	han := func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) })
	}
	for name, text := range map[string]lab.Text{
		"title": s.Title, "setup": s.Setup, "forced": s.Forced, "why": s.Why, "fix": s.Fix,
	} {
		if text.EN == "" || han(text.EN) {
			t.Errorf("%s in English: %q", name, text.EN)
		}
		if !han(text.ZH) {
			t.Errorf("%s in Chinese: %q", name, text.ZH)
		}
	}
	if s.Run == nil && s.Together == nil {
		t.Error("it has neither Run nor Together")
	}
	if len(s.Cases) == 0 || len(s.Needs) == 0 {
		t.Error("it has no cases, or no needs")
	}
	cases := make(map[string]bool)
	for _, c := range s.Cases {
		if cases[c.String()] {
			t.Errorf("%s: twice", c)
		}
		cases[c.String()] = true
		if (c.Strategy == "") == (c.Code == "") {
			t.Errorf("%s: must have one of Strategy and Code", c)
		}
		f := c.Want
		if f.Outcome == "" && s.Predict != nil && c.Strategy != "" {
			f = s.Predict(c, lab.StrategyPromise{})
			if f.From == "" {
				t.Errorf("%s: its forecast does not say what it follows from", c)
			}
		}
		if !slices.Contains(lab.Outcomes(), f.Outcome) {
			t.Errorf("%s: the forecast is %q", c, f.Outcome)
		}
	}
}

// Every text that a scenario says is there and is given its values, and every text is said.
func TestTheScenariosHaveTheirTexts(t *testing.T) {
	t.Parallel()
	made := []string{
		"scenarios.", "says.sale-is-written-no-reply", "says.sale-is-lost-on-its-way", "says.sale-is-held",
		"says.sale-is-written-reply-held", "says.asks", "says." + replyLost, "says." + requestLost,
	}
	for _, s := range all(t) {
		for _, c := range s.Cases {
			if c.Variant != "" {
				made = append(made, "variants."+c.Variant)
			}
		}
	}
	says := func(at int) wordstest.Speaker { return wordstest.Speaker{At: at, Under: []string{"says."}} }
	wordstest.Catalogue(t, words.NewPhrasebook(textFiles, "text"), map[string]wordstest.Speaker{
		"Evidence": says(2), "Note": says(1), "Interval": says(4), "Event": says(1), "Sprung": says(1),
		"holders": {At: 0, Under: []string{"says."}, Bare: true},
		"trap":    {At: 1, Under: []string{"says."}, Bare: true},
	}, made...)
}
