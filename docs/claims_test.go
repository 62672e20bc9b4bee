package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var writeClaims = flag.Bool("write-claims", false, "write the pages that are made from notes.yaml")

// numberOfClaims is how many claims the five notes have. Later numbers are of claims from elsewhere.
const numberOfClaims = 91

// A subject has claims, or questions of interviews. Texts are by language.
type subject struct {
	Title  map[string]string
	Claims []struct {
		ID             int
		Verdict        string
		Said, Measured map[string]string
		Evidence       [][3]string // scenario, case, outcome
		See, Run       []string
	}
	Questions []struct {
		Q, A map[string]string
		Run  string
	}
}

// A claimsPage is what the page says in one language.
type claimsPage struct {
	file, lang, head, claims, questions, lesson string
	verdicts                                    map[string]string
}

var claimsPages = []claimsPage{
	{
		"claims.md", "en", "# Claims about locks\n\n[中文](claims.zh-CN.md)\n\nWhat notes, blogs and candidates say " +
			"about locks (in our words), and what is seen here. 1 to 91 are all claims, samples, figures and " +
			"exercises of the five notes with which this project began. Do not believe a row: a name such as " +
			"[get-then-del](failure-modes.md#get-then-del) is a scenario, and `bin/stock lab run get-then-del` makes " +
			"it happen.\n",
		"| # | said | verdict | here | see |\n|---:|---|---|---|---|\n",
		"| asked | answer | see |\n|---|---|---|\n", "page %d",
		map[string]string{
			"confirmed": "confirmed", "half": "half right", "refuted": "refuted", "untestable": "cannot be tested here",
		},
	},
	{
		"claims.zh-CN.md", "zh", "# 关于锁的说法\n\n[English](claims.md)\n\n笔记、博客和面试里关于锁的说法（用我们自己的话转述），" +
			"以及在这里实际看到的。1～91 是本项目起源的五篇笔记里的全部说法、示例、数字和练习。不要轻信任何一行：" +
			"[get-then-del](failure-modes.md#get-then-del) 这样的名字是一个场景，运行 `bin/stock lab run get-then-del --lang zh` " +
			"就能亲眼看到。\n",
		"| # | 说法 | 结论 | 这里看到的 | 在哪里看 |\n|---:|---|---|---|---|\n", "| 问 | 答 | 在哪里看 |\n|---|---|---|\n", "第 %d 课",
		map[string]string{"confirmed": "成立", "half": "对一半", "refuted": "不成立", "untestable": "此处无法测试"},
	},
}

func (p claimsPage) render(t *testing.T, subjects []subject) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("<!-- made from notes.yaml: docs/refresh claims -->\n" + p.head)
	for _, s := range subjects {
		fmt.Fprintf(&b, "\n## %s\n\n", s.Title[p.lang])
		if len(s.Claims) > 0 {
			b.WriteString(p.claims)
		} else {
			b.WriteString(p.questions)
		}
		for _, c := range s.Claims {
			var places []string
			for _, e := range c.Evidence {
				if place := fmt.Sprintf("[%s](failure-modes.md#%[1]s)", e[0]); !slices.Contains(places, place) {
					places = append(places, place)
				}
			}
			for _, link := range c.See {
				places = append(places, p.link(t, link))
			}
			for _, command := range c.Run {
				places = append(places, "`"+command+"`")
			}
			fmt.Fprintf(&b, "| <a id=\"claim-%d\"></a>%[1]d | %s | %s | %s | %s |\n",
				c.ID, c.Said[p.lang], p.verdicts[c.Verdict], c.Measured[p.lang], strings.Join(places, ", "))
		}
		for _, q := range s.Questions {
			fmt.Fprintf(&b, "| %s | %s | `bin/%s` |\n", q.Q[p.lang], q.A[p.lang], q.Run)
		}
	}
	return b.String()
}

var lessonNumber = regexp.MustCompile(`^lessons/(\d+)`)

// link links to a section of a document. The Chinese page links to the same section of the Chinese document, if there
// is one.
func (p claimsPage) link(t *testing.T, to string) string {
	t.Helper()
	if page, ok := strings.CutPrefix(to, "https://"); ok {
		host, _, _ := strings.Cut(page, "/")
		return fmt.Sprintf("[%s](%s)", host, to)
	}
	file, anchor, _ := strings.Cut(to, "#")
	label := strings.TrimSuffix(file, ".md")
	if m := lessonNumber.FindStringSubmatch(file); m != nil {
		n, _ := strconv.Atoi(m[1])
		label = fmt.Sprintf(p.lesson, n)
	}
	twin := strings.TrimSuffix(file, ".md") + ".zh-CN.md"
	if _, err := os.Stat(twin); err == nil && p.lang == "zh" {
		at := slices.Index(anchors(document(t, filepath.Join("docs", file))), anchor)
		if names := anchors(document(t, filepath.Join("docs", twin))); at >= 0 && at < len(names) {
			anchor = names[at]
		}
		file = twin
	}
	if anchor != "" {
		file += "#" + anchor
	}
	return fmt.Sprintf("[%s](%s)", label, file)
}

// Every claim has a verdict and a place, the lab has seen its evidence, and the pages say what the file says.
func TestClaims(t *testing.T) {
	var subjects []subject
	in := yaml.NewDecoder(strings.NewReader(document(t, "docs/notes.yaml")))
	in.KnownFields(true)
	if err := in.Decode(&subjects); err != nil {
		t.Fatal(err)
	}
	seen := map[[2]string]string{}
	for _, w := range words(t) {
		seen[[2]string{w.Scenario, w.Case}] = string(w.Observed)
	}
	ids := map[int]bool{}
	for _, s := range subjects {
		for _, c := range s.Claims {
			if ids[c.ID] || claimsPages[0].verdicts[c.Verdict] == "" || len(c.Evidence)+len(c.See)+len(c.Run) == 0 {
				t.Errorf("claim %d: its number is not its own, or it has no verdict, or no place", c.ID)
			}
			ids[c.ID] = true
			for _, e := range c.Evidence {
				if got := seen[[2]string{e[0], e[1]}]; got != e[2] {
					t.Errorf("claim %d: %v: the lab sees %q: is its verdict still right?", c.ID, e, got)
				}
			}
		}
	}
	for n := 1; n <= numberOfClaims; n++ {
		if !ids[n] {
			t.Errorf("claim %d of the notes is missing", n)
		}
	}
	for _, p := range claimsPages {
		want := p.render(t, subjects)
		if *writeClaims {
			if err := os.WriteFile(p.file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if document(t, filepath.Join("docs", p.file)) != want {
			t.Errorf("%s is not what notes.yaml says: docs/refresh claims", p.file)
		}
	}
}
