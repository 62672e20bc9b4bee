package docs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var writeSaid = flag.Bool("write-said", false,
	"write the pages that are made from said.yaml, questions.yaml and notes.yaml")

// A card is a common claim about locks, and what the lab shows about it.
type card struct {
	ID       string            `yaml:"id"`
	Verdict  string            `yaml:"verdict"`  // right, half or wrong
	Said     map[string]string `yaml:"said"`     // by language: en, zh
	Measured map[string]string `yaml:"measured"` // by language
	Evidence [][3]string       `yaml:"evidence"` // scenario, case, outcome
	Source   string            `yaml:"source"`
}

// readCards returns the cards, in teaching order.
func readCards(t *testing.T) []card {
	t.Helper()
	var cards []card
	in := yaml.NewDecoder(strings.NewReader(document(t, "docs/said.yaml")))
	in.KnownFields(true)
	if err := in.Decode(&cards); err != nil {
		t.Fatal(err)
	}
	// YAML makes a blank of a line break, also after Chinese punctuation.
	folded := regexp.MustCompile(`([，。；：？！”])\s+`)
	for _, c := range cards {
		c.Measured["zh"] = folded.ReplaceAllString(c.Measured["zh"], "$1")
	}
	return cards
}

// command returns the command that demonstrates the card's claim.
func (c card) command() string {
	var scenarios []string
	for _, e := range c.Evidence {
		if !slices.Contains(scenarios, e[0]) {
			scenarios = append(scenarios, e[0])
		}
	}
	return "bin/stock lab run " + strings.Join(scenarios, " ")
}

// A saidPage is what the page says in one language.
type saidPage struct {
	file, lang                                   string
	title, intro, verdict, see, evidence, source string
	colon, end                                   string
	verdicts                                     map[string]string
}

var saidPages = []saidPage{
	{
		file: "said.md", lang: "en",
		title: "# Said and measured",
		intro: "Blogs and notes make these claims about locks (in our words); this page compares them with what " +
			"the fault lab of\nthis project shows. Each card ends with a command: do not believe the card, run it. " +
			"A test compares every card\nwith the results in [failure-modes.md](failure-modes.md), which come from " +
			"a run of the whole lab and explain the\noutcomes.",
		verdict: "Verdict", see: "See it", evidence: "Seen", source: "Read on", colon: ": ", end: ".",
		verdicts: map[string]string{"right": "right", "half": "half right", "wrong": "wrong"},
	},
	{
		file: "said.zh-CN.md", lang: "zh",
		title: "# 博客说／实测",
		intro: "博客和笔记里关于锁的说法（用我们自己的话转述），以及本项目的故障实验室实际看到的结果。每张卡片都以一条\n" +
			"命令结尾：不要相信卡片，请自己运行。有一个测试拿每张卡片与 [failure-modes.md](failure-modes.md) 里的结果\n" +
			"核对，那些结果来自整个实验室的一次运行。各种结果的含义也在那里。",
		verdict: "结论", see: "亲自看", evidence: "所见", source: "延伸阅读", colon: "：", end: "。",
		verdicts: map[string]string{"right": "对", "half": "对一半", "wrong": "错"},
	},
}

// render makes the page of the cards.
func (p saidPage) render(cards []card, word func(outcome, lang string) string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<!-- made from said.yaml: docs/refresh said -->\n%s\n\n%s\n", p.title, p.intro)
	for _, c := range cards {
		fmt.Fprintf(&b, "\n<a id=\"%s\"></a>\n## %s\n\n**%s%s%s%s** %s\n\n", c.ID, c.Said[p.lang],
			p.verdict, p.colon, p.verdicts[c.Verdict], p.end, c.Measured[p.lang])
		fmt.Fprintf(&b, "- %s%s`%s`\n- %s%s\n",
			p.see, p.colon, c.command(), p.evidence, strings.TrimSpace(p.colon))
		for _, e := range c.Evidence {
			fmt.Fprintf(&b, "  - [%s](failure-modes.md#%s), `%s`%s%s\n", e[0], e[0], e[1], p.colon, word(e[2], p.lang))
		}
		fmt.Fprintf(&b, "- %s%s<%s>\n", p.source, p.colon, c.Source)
	}
	return b.String()
}

// Every card rests on results of the lab, and the pages say what the cards say.
func TestSaid(t *testing.T) {
	cards := readCards(t)
	seen := observed(t)
	ids := map[string]bool{}
	for _, c := range cards {
		if ids[c.ID] || c.ID == "" {
			t.Errorf("card %q: its id must be its own", c.ID)
		}
		ids[c.ID] = true
		if saidPages[0].verdicts[c.Verdict] == "" {
			t.Errorf("%s: verdict %q", c.ID, c.Verdict)
		}
		if len(c.Evidence) == 0 || !strings.HasPrefix(c.Source, "https://") {
			t.Errorf("%s: no evidence, or no source", c.ID)
		}
		restsOn(t, c, seen)
	}
	words := outcomeWords(t)
	for _, p := range saidPages {
		compare(t, p.file, p.render(cards, func(outcome, lang string) string { return words[lang][outcome] }))
	}
}

// restsOn wants a card to have its texts in both languages, and the lab to have seen its evidence.
func restsOn(t *testing.T, c card, seen map[[2]string]string) {
	t.Helper()
	for _, lang := range []string{"en", "zh"} {
		if c.Said[lang] == "" || c.Measured[lang] == "" {
			t.Errorf("%s: a text in %q is missing", c.ID, lang)
		}
	}
	for _, e := range c.Evidence {
		if got := seen[[2]string{e[0], e[1]}]; got != e[2] {
			t.Errorf("%s: %s, %s: the lab sees %q, the card says %q: look at its verdict again", c.ID, e[0],
				e[1], got, e[2])
		}
	}
}

// A question is one of an interview, whose answer a command shows.
type question struct {
	Q   map[string]string `yaml:"q"`
	A   map[string]string `yaml:"a"`
	Run string            `yaml:"run"`
}

// A questionPage is what the page of questions says in one language. head has a place for their number.
type questionPage struct{ file, lang, head, answer string }

var questionPages = []questionPage{
	{"questions.md", "en", "# %d questions\n\nAsked in interviews about distributed locks and stock. Answer " +
		"first, then unfold, then run the command: it\nmakes the thing happen on real servers. More: [said and " +
		"measured](said.md), [which one?](which.md),\n[lessons](lessons/README.md).\n", "Answer"},
	{"questions.zh-CN.md", "zh", "# %d 个面试题\n\n关于分布式锁和库存扣减。先自己回答，再展开答案，然后运行命令：它会在真实的服务器上把事情做出来。更多：" +
		"\n[博客说／实测](said.zh-CN.md)、[怎么选](which.zh-CN.md)、[课程](lessons/README.zh-CN.md)。\n", "答案"},
}

func (p questionPage) render(questions []question) string {
	var b strings.Builder
	b.WriteString("<!-- made from questions.yaml: docs/refresh said -->\n")
	fmt.Fprintf(&b, p.head, len(questions))
	for i, q := range questions {
		fmt.Fprintf(&b, "\n## %d. %s\n\n<details><summary>%s</summary>\n\n%s\n\n</details>\n\n    bin/%s\n",
			i+1, q.Q[p.lang], p.answer, q.A[p.lang], q.Run)
	}
	return b.String()
}

// Every question has an answer in both languages and a command that exists, and the pages say what the file says.
func TestQuestions(t *testing.T) {
	var questions []question
	decode(t, "questions.yaml", &questions)
	if len(questions) == 0 {
		t.Error("no questions")
	}
	scenarios := map[string]bool{}
	for key := range observed(t) {
		scenarios[key[0]] = true
	}
	for i, q := range questions {
		for _, lang := range []string{"en", "zh"} {
			if q.Q[lang] == "" || q.A[lang] == "" {
				t.Errorf("question %d: a text in %q is missing", i+1, lang)
			}
		}
		names, ofLab := strings.CutPrefix(q.Run, "stock lab run ")
		for name := range strings.FieldsSeq(names) {
			if ofLab && !scenarios[name] {
				t.Errorf("question %d: there is no scenario %q", i+1, name)
			}
		}
		ofDemo := strings.HasPrefix(q.Run, "stock demo --strategies ")
		if !ofLab && !ofDemo && !strings.HasPrefix(q.Run, "stock lab soak ") {
			t.Errorf("question %d: it ends in %q", i+1, q.Run)
		}
	}
	for _, p := range questionPages {
		compare(t, p.file, p.render(questions))
	}
}

// The table of which.md says of each strategy what the table of all strategies says.
func TestWhichSaysWhatTheStrategiesAre(t *testing.T) {
	for _, lang := range []string{".md", ".zh-CN.md"} {
		all := strategyRows(document(t, "docs/strategies"+lang))
		chosen := strategyRows(document(t, "docs/which"+lang))
		if len(chosen) < 5 {
			t.Errorf("which%s has %d strategies", lang, len(chosen))
		}
		for name, row := range chosen {
			of := all[name]
			if of == nil {
				t.Errorf("which%s: there is no strategy %s", lang, name)
				continue
			}
			// Safe on, fair, fenced, round trips, next holder after a crash.
			if got, want := row[1:6], []string{of[3], of[5], of[6], of[7], of[8]}; !slices.Equal(got, want) {
				t.Errorf("which%s: %s is %q, the strategies say %q", lang, name, got, want)
			}
		}
	}
}

// strategyRows are the first rows of a document's tables that begin with the name of each strategy.
func strategyRows(text string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if rows[cells[0]] == nil {
			rows[cells[0]] = cells
		}
	}
	return rows
}

// decode reads a file of this folder strictly.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := yaml.NewDecoder(bytes.NewReader(text))
	in.KnownFields(true)
	if err := in.Decode(into); err != nil {
		t.Fatal(err)
	}
}

// compare wants the file to say what was made, or writes it.
func compare(t *testing.T, file, want string) {
	t.Helper()
	if *writeSaid {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is not what it is made from (%v): docs/refresh said", file, err)
	}
}

// observed is what the lab saw of each scenario and case.
func observed(t *testing.T) map[[2]string]string {
	t.Helper()
	text, err := os.ReadFile("failure-modes.json")
	if err != nil {
		t.Fatal(err)
	}
	var cells []struct{ Scenario, Case, Observed string }
	if err := json.Unmarshal(text, &cells); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]string]string{}
	for _, c := range cells {
		seen[[2]string{c.Scenario, c.Case}] = c.Observed
	}
	return seen
}

// outcomeWords are the names of the outcomes by language.
func outcomeWords(t *testing.T) map[string]map[string]string {
	t.Helper()
	words := map[string]map[string]string{}
	for _, lang := range []string{"en", "zh"} {
		text, err := os.ReadFile("../lab/text/" + lang + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Outcomes map[string]struct{ Word string }
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatal(err)
		}
		words[lang] = map[string]string{}
		for outcome, said := range file.Outcomes {
			words[lang][outcome] = said.Word
		}
	}
	return words
}

// caseNames are the names of the lab's cases by language, then by scenario and the case in English.
func caseNames(t *testing.T) map[string]map[[2]string]string {
	t.Helper()
	names := map[string]map[[2]string]string{"en": {}, "zh": {}}
	for _, s := range catalogue(t) {
		for _, c := range s.Cases {
			for lang := range names {
				names[lang][[2]string{s.Name, c.String()}] = c.Said().In(lang)
			}
		}
	}
	return names
}
