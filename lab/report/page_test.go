package report_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/lab"
)

func page(t *testing.T, r lab.Report, lang string) string {
	t.Helper()
	var b bytes.Buffer
	if err := matrix(r).WriteHTML(&b, lang); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// one is the first case of the catalogue.
func one() lab.Report {
	r := whole()
	r.Cells = r.Cells[:1]
	return r
}

// The page is well-formed, holds all it needs, and every link in it leads somewhere.
func TestPageHoldsAllItNeeds(t *testing.T) {
	for _, r := range []lab.Report{whole(), one()} {
		p := page(t, r, "en")
		decoder := xml.NewDecoder(strings.NewReader(p))
		decoder.Entity = xml.HTMLEntity
		scripts := 0 // with a src it would be found below
		places, links := make(map[string]int), make(map[string]bool)
		refers := func(text string) {
			for _, part := range strings.Split(text, "url(")[1:] {
				target, _, _ := strings.Cut(part, ")")
				links[target] = true
			}
			if strings.Contains(text, "@import") {
				t.Errorf("it imports: %q", text)
			}
		}
		for {
			token, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			switch token := token.(type) {
			case xml.CharData:
				refers(string(token))
			case xml.StartElement:
				if token.Name.Local == "script" {
					scripts++
				}
				for _, a := range token.Attr {
					switch a.Name.Local {
					case "id":
						places[a.Value]++
					case "href":
						links[a.Value] = true
					case "src", "action", "data":
						t.Errorf("%s=%q", a.Name.Local, a.Value)
					default:
						refers(a.Value)
					}
				}
			}
		}
		if scripts != 1 {
			t.Errorf("it holds %d scripts", scripts)
		}
		for link := range links {
			place, inside := strings.CutPrefix(link, "#")
			if strings.HasPrefix(link, "data:") {
				continue
			}
			if !inside || places[place] != 1 {
				t.Errorf("%s leads to %d places of the page", link, places[place])
			}
		}
	}
}

// Every cell is in the matrix, and every event is drawn once, and told.
func TestEveryEventIsDrawn(t *testing.T) {
	r := whole()
	p := page(t, r, "en")
	if links := strings.Count(p, `<a class="w `); links != len(r.Cells) {
		t.Errorf("%d links in the matrix for %d cells", links, len(r.Cells))
	}
	p = page(t, one(), "en")
	figure := regexp.MustCompile(`(?s)<figure class="steps".*?</figure>`).FindString(p)
	for part, n := range map[string]int{ // one of each bar in the legend
		`class="bar b-lease"`: 3, `class="bar b-standing"`: 2, `class="bar b-overlap"`: 2, `class="bar b-paused"`: 2,
		`class="bar b-fault"`: 1, `class="band"`: 1, `class="k-refused"`: 1, `class="k-write harm"`: 1,
		`>SET NX: false<tspan`: 0, "A and B both believed": 1, "A: believes that it holds the lock; 2.0 ms + 3.00 s": 1,
		"B had already written from version 1": 2,
	} {
		if got := strings.Count(figure, part); got != n {
			t.Errorf("%s: %d times in the picture, want %d", part, got, n)
		}
	}
	for part, n := range map[string]int{"SET NX: false (2 times)": 3, "&lt;SIGSTOP&gt;": 6} {
		if got := strings.Count(p, part); got != n {
			t.Errorf("%s: %d times, want %d", part, got, n)
		}
	}
}

// The page opens in the language that was asked for, and has both.
func TestBothLanguages(t *testing.T) {
	s := all()[0]
	for lang, checked := range map[string]string{"en": `id="en" checked=""`, "zh": `id="zh" checked=""`} {
		p := page(t, one(), lang)
		for _, want := range []string{
			checked, `<span lang="en">` + s.Title.EN, `<span lang="zh">` + s.Title.ZH, "，与预测一致", "（2 次）",
			`<tspan lang="zh">app-7 被冻结</tspan>`, `<span lang="zh">app-7 被冻结</span>`,
		} {
			if !strings.Contains(p, want) {
				t.Errorf("%s: %q is not there", lang, want)
			}
		}
	}
}

// What was not as predicted stands out, opens by itself, and says so in words.
func TestWrongCellsStandOut(t *testing.T) {
	r := whole()
	r.Cells[3].AsPredicted, r.Cells[3].Observed = false, lab.Herds
	r.Cells[4].Skipped, r.Cells[4].AsPredicted, r.Cells[4].Events = "redis: it was not started", false, nil
	p := page(t, r, "en")
	for _, want := range []string{
		"1 NOT", "1 skipped", `class="w wrong"`, "herds, BUT PREDICTED: ", "skipped: redis: it was not started",
	} {
		if !strings.Contains(p, want) {
			t.Errorf("%q is not there", want)
		}
	}
	if open := strings.Count(p, `<details open=""`); open != 1 {
		t.Errorf("%d cases are open, want the wrong one", open)
	}
}

// Fences of 16 digits are shown by rank, the number on demand. Shorter ones stay.
func TestLongFencesAreRanked(t *testing.T) {
	r := one()
	r.Cells[0].Evidence = []lab.Evidence{
		{Kind: lab.Fence, Text: "A (app-7): sold, fence 1795311526293399"},
		{Kind: lab.Fence, Text: "B (app-9): refused, fence 1795311526293384 and 900"},
	}
	p := page(t, r, "en")
	for _, want := range []string{
		`fence <abbr title="1795311526293399">#2</abbr>`, `fence <abbr title="1795311526293384">#1</abbr> and 900`,
	} {
		if !strings.Contains(p, want) {
			t.Errorf("no %s", want)
		}
	}
}
