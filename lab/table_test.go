package lab

import (
	"reflect"
	"regexp"
	"slices"
	"testing"
	"unicode"

	"example.com/stock/stack"
)

var kebab = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// The catalogue says all that it must, in both languages, and names only strategies that there are.
func TestTable(t *testing.T) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	s, err := openStand(t.Context(), stack.Options{Binary: path, Parent: t.TempDir()}, []Need{NeedRedis})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	offers, err := s.strategies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, s := range All() {
		if !kebab.MatchString(s.Name) || len(s.Name) > 40 || names[s.Name] {
			t.Errorf("%q is no name in kebab case with at most 40 letters, or is used twice", s.Name)
		}
		names[s.Name] = true
		t.Run(s.Name, func(t *testing.T) { checkScenario(t, s, offers) })
	}
}

func checkScenario(t *testing.T, s Scenario, offers map[string]Strategy) {
	if !slices.Contains([]Group{NoLock, SetNX, Redlock, ZooKeeper, MySQL, Fairness}, s.Group) {
		t.Errorf("group %q", s.Group)
	}
	texts := reflect.ValueOf(s)
	for _, name := range []string{"Title", "Setup", "Forced", "Why", "Fix"} {
		text := texts.FieldByName(name).Interface().(Text)
		if text.EN == "" || slices.ContainsFunc([]rune(text.EN), func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s in English: %q", name, text.EN)
		}
		if !slices.ContainsFunc([]rune(text.ZH), func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
			t.Errorf("%s in Chinese: %q", name, text.ZH)
		}
	}
	if (s.Run == nil) == (s.Together == nil) {
		t.Error("it must have one of Run and Together")
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
		offer, known := offers[c.Strategy]
		if c.Strategy != "" && !known {
			t.Errorf("%s: there is no such strategy", c)
		}
		if c.Store != "" && c.Strategy != "" && !slices.Contains(offer.Stores, c.Store) {
			t.Errorf("%s: it does not work on that store", c)
		}
		f := c.Want
		if f.Outcome == "" && s.Predict != nil && c.Strategy != "" {
			f = s.Predict(c, offer.Promise)
			if f.From == "" {
				t.Errorf("%s: its forecast does not say what it follows from", c)
			}
		}
		if !slices.Contains(Outcomes(), f.Outcome) {
			t.Errorf("%s: the forecast is %q", c, f.Outcome)
		}
	}
}
