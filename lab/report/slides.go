package report

import (
	"bytes"
	"cmp"
	_ "embed" // the cards
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"example.com/stock/lab"
	"example.com/stock/lab/diagram"
)

//go:embed said.yaml
var saidFile []byte

// A Card is a common claim about locks, and what the lab shows about it.
type Card struct {
	ID       string            `yaml:"id"`
	Verdict  string            `yaml:"verdict"`  // right, half or wrong
	Said     map[string]string `yaml:"said"`     // by language: en, zh
	Measured map[string]string `yaml:"measured"` // by language
	Evidence [][3]string       `yaml:"evidence"` // scenario, case, outcome
	Source   string            `yaml:"source"`
}

// Cards returns the cards, in teaching order. A test of docs compares each with the lab's findings.
func Cards() ([]Card, error) {
	var cards []Card
	in := yaml.NewDecoder(bytes.NewReader(saidFile))
	in.KnownFields(true)
	if err := in.Decode(&cards); err != nil {
		return nil, fmt.Errorf("read the cards: %w", err)
	}
	for _, c := range cards {
		c.Measured["zh"] = folded.ReplaceAllString(c.Measured["zh"], "$1")
	}
	return cards, nil
}

// folded matches the blank that YAML makes of a line break after Chinese punctuation.
var folded = regexp.MustCompile(`([，。；：？！”])\s+`)

// Command returns the command that demonstrates the card's claim.
func (c Card) Command() string {
	var scenarios []string
	for _, e := range c.Evidence {
		if !slices.Contains(scenarios, e[0]) {
			scenarios = append(scenarios, e[0])
		}
	}
	return "bin/stock lab run " + strings.Join(scenarios, " ")
}

// Harmful returns the number of cases in the evidence in which harm was done.
func (c Card) Harmful() (n int) {
	for _, e := range c.Evidence {
		if class(lab.Outcome(e[2])) == "bad" {
			n++
		}
	}
	return n
}

//go:embed slides.html.tmpl
var slidesPage string

// turn makes the arrow keys turn the slides.
const turn = `
const slides = [...document.querySelectorAll("section")];
addEventListener("keydown", (e) => {
  const by = { ArrowRight: 1, PageDown: 1, " ": 1, ArrowLeft: -1, PageUp: -1 }[e.key];
  if (!by || e.altKey || e.ctrlKey || e.metaKey) return;
  e.preventDefault();
  const at = slides.findIndex((s) => s.getBoundingClientRect().bottom > innerHeight / 2);
  slides[Math.min(Math.max(at + by, 0), slides.length - 1)].scrollIntoView();
});
`

// WriteSlides writes one page that needs no network, with a slide for each card: the claim, the verdict, the findings,
// the number of harmful cases, and the command. Arrow keys turn the slides; each prints as one page. scenarios is the
// catalogue, for the names of cases. lang is en or zh.
func WriteSlides(w io.Writer, cards []Card, scenarios []lab.Scenario, lang string) error {
	if err := phrases.Check(); err != nil {
		return err
	}
	say := func(key string, pairs ...any) string { return phrases.Say("slides."+key, pairs...).In(lang) }
	cases := make(map[[2]string]string)
	for _, s := range scenarios {
		for _, c := range s.Cases {
			cases[[2]string{s.Name, c.String()}] = c.Said().In(lang)
		}
	}
	page, err := template.New("slides").Funcs(template.FuncMap{
		"say":     say,
		"text":    func(t map[string]string) string { return t[lang] },
		"next":    func(i int) int { return i + 1 },
		"case":    func(scenario, name string) string { return cmp.Or(cases[[2]string{scenario, name}], name) },
		"verdict": func(c Card) string { return say("verdict-" + c.Verdict) },
		"word":    func(outcome string) string { return lab.Outcome(outcome).Word().In(lang) },
		"class":   func(outcome string) string { return class(lab.Outcome(outcome)) },
	}).Parse(slidesPage)
	if err != nil {
		return fmt.Errorf("slides: %w", err)
	}
	return page.Execute(w, map[string]any{
		"Lang": map[string]string{"en": "en", "zh": "zh-CN"}[lang], "Cards": cards,
		"Policy": diagram.Policy(turn), "Script": template.JS(turn),
	})
}
