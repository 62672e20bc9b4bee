package report_test

import (
	"bytes"
	"html"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
)

// Every card has a slide in each language, with its claim, verdict, cases, number and command, and nothing of the other
// language.
func TestSlides(t *testing.T) {
	t.Parallel()
	cards, err := report.Cards()
	if err != nil || len(cards) < 20 {
		t.Fatalf("%d cards, %v", len(cards), err)
	}
	scenarios := []lab.Scenario{{Name: "local-mutex", Cases: []lab.Case{
		{Strategy: "local-mutex", Label: lab.Text{EN: "1 instance", ZH: "1 个实例"}},
	}}}
	for _, row := range []struct{ lang, other, wrong, first string }{
		{"en", "zh", "wrong", "local-mutex, 1 instance"}, {"zh", "en", "错", "local-mutex，1 个实例"},
	} {
		var b bytes.Buffer
		if err := report.WriteSlides(&b, cards, scenarios, row.lang); err != nil {
			t.Fatal(err)
		}
		page := html.UnescapeString(b.String())
		if got := strings.Count(page, "<section"); got != len(cards)+1 {
			t.Errorf("%s: %d slides of %d cards", row.lang, got, len(cards))
		}
		if !strings.Contains(page, "<td>"+row.first+"</td>") {
			t.Errorf("%s: the cases do not have their names: want %q", row.lang, row.first)
		}
		if strings.Contains(page, "src=") || strings.Contains(page, "@import") {
			t.Errorf("%s: it needs the network", row.lang)
		}
		for _, c := range cards {
			_, slide, _ := strings.Cut(page, `<section id="`+c.ID+`">`)
			slide, _, _ = strings.Cut(slide, "</section>")
			for _, want := range []string{c.Said[row.lang], c.Measured[row.lang], c.Command(), c.Source} {
				if want == "" || !strings.Contains(slide, want) {
					t.Errorf("%s: the slide of %s does not say %q", row.lang, c.ID, want)
				}
			}
			if c.Said["en"] != c.Said["zh"] && strings.Contains(slide, c.Said[row.other]) {
				t.Errorf("%s: the slide of %s speaks the other language", row.lang, c.ID)
			}
			if got, want := strings.Count(slide, "<tr>"), len(c.Evidence); got != want {
				t.Errorf("%s: the slide of %s has %d cases of %d", row.lang, c.ID, got, want)
			}
			if c.Verdict == "wrong" && !strings.Contains(slide, ">"+row.wrong+"</p>") {
				t.Errorf("%s: the slide of %s has not the verdict wrong", row.lang, c.ID)
			}
		}
	}
}

// What counts is harm: a card of one case that oversells and one that does not has 1.
func TestHarmful(t *testing.T) {
	t.Parallel()
	c := report.Card{Evidence: [][3]string{{"a", "b", "oversells"}, {"a", "c", "safe"}, {"d", "e", "delays"}}}
	if got := c.Harmful(); got != 1 {
		t.Errorf("%d cases did harm, want 1", got)
	}
	if got := c.Command(); got != "bin/stock lab run a d" {
		t.Errorf("the command is %q", got)
	}
}
