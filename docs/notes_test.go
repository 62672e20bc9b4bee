package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numberOfClaims is how many claims, samples, figures and exercises the five notes have.
const numberOfClaims = 91

// A claim is one of the notes. It is a card with the number of the claim as its id, in one clause, and it may also be
// shown elsewhere than in the lab.
type claim struct {
	card `yaml:",inline"`
	From string   `yaml:"from"` // letters of the notes
	See  []string `yaml:"see"`  // links into the English documents, from this folder, or to pages elsewhere
	Run  []string `yaml:"run"`  // commands other than "stock lab run"
}

// A subject groups claims.
type subject struct {
	Title  map[string]string `yaml:"title"`
	Claims []claim           `yaml:"claims"`
}

// notShown is the verdict on a claim that nothing in the project shows yet. The documents that it links to are only
// about its subject.
const notShown = "open"

var noteVerdicts = []string{"confirmed", "half", "refuted", "untestable", notShown}

// A notesPage is what the page says in one language.
type notesPage struct {
	file, lang, head, columns, open, missing, near string
	colon, comma, semicolon                        string
	verdicts                                       map[string]string
	labels                                         map[string]string // of links, by kind of document
}

var notesPages = []notesPage{
	{
		file: "notes.md", lang: "en",
		head: "# Every claim of the notes\n\n[中文](notes.zh-CN.md)\n\n" +
			"This project began from five blog-like notes on deducting stock with locks. Here are their %d claims,\n" +
			"samples, figures and exercises (in our words), each with a verdict and the place where it is shown:\n" +
			"%s.\n\n" +
			"A name such as `get-then-del` is a scenario of the fault lab: `bin/stock lab run get-then-del` makes it " +
			"happen.\nThe letters are the notes: A is about the basics of locks in Redis and ZooKeeper, " +
			"B is a summary with a stock\ndemonstration behind nginx, C a ZooKeeper lock with Curator, D a service " +
			"under gunicorn that moved to locks in\nRedis, E questions and answers.\n",
		columns: "| # | from | the notes say | verdict | here | shown in |\n|---:|---|---|---|---|---|\n",
		open: "\n## Not shown yet\n\nNothing in this project shows these %d claims yet. Their rows name what is " +
			"to be shown, and link to documents\nabout the subject: %s.\n",
		missing: "to show: ", near: "about it: ", colon: ": ", comma: ", ", semicolon: "; ",
		verdicts: map[string]string{
			"confirmed": "confirmed", "half": "half right", "refuted": "refuted",
			"untestable": "cannot be tested here", notShown: "not shown yet",
		},
		labels: map[string]string{
			"said": "card", "questions": "question %s", "lessons": "lesson %s", "adr": "ADR %s",
			"promises": "promises", "modes-elsewhere": "failures that are no scenario",
		},
	},
	{
		file: "notes.zh-CN.md", lang: "zh",
		head: "# 笔记里的每个说法\n\n[English](notes.md)\n\n" +
			"本项目起源于五篇关于“加锁扣减库存”的笔记和博客。下面是其中的 %d 个说法、示例、数字和练习（用我们自己的话转述），\n" +
			"每个都附上结论和展示它的位置：%s。\n\n" +
			"`get-then-del` 这样的名字是故障实验室的一个场景：运行 `bin/stock lab run get-then-del` 就能看到它发生。字母代表来源：\nA " +
			"讲 Redis 锁和 ZooKeeper 锁的基础，B 是一篇总结，附 nginx 后面的库存演示，C 用 Curator 写 ZooKeeper 锁，\nD 是一个跑在 " +
			"gunicorn 下、后来改用 Redis 锁的服务，E 是问答。\n",
		columns: "| # | 来源 | 笔记的说法 | 结论 | 这里看到的 | 在哪里看 |\n|---:|---|---|---|---|---|\n",
		open:    "\n## 尚未展示\n\n以下 %d 个说法，本项目还没有展示。各行写明要展示什么，链接指向相关的文档：%s。\n",
		missing: "待展示：", near: "相关：", colon: "：", comma: "、", semicolon: "；",
		verdicts: map[string]string{
			"confirmed": "成立", "half": "对一半", "refuted": "不成立", "untestable": "此处无法测试", notShown: "尚未展示",
		},
		labels: map[string]string{
			"said": "卡片", "questions": "问题 %s", "lessons": "第 %s 课", "adr": "ADR %s",
			"promises": "承诺", "modes-elsewhere": "没有做成场景的故障",
		},
	},
}

// render makes the page of the claims. cases are the names of the lab's cases in the page's language.
func (p notesPage) render(t *testing.T, subjects []subject, word map[string]string,
	cases map[[2]string]string,
) string {
	t.Helper()
	var rows strings.Builder
	total, count, open := 0, map[string]int{}, []string(nil)
	for _, s := range subjects {
		fmt.Fprintf(&rows, "\n## %s\n\n%s", s.Title[p.lang], p.columns)
		for _, c := range s.Claims {
			total++
			count[c.Verdict]++
			missing, near := "", ""
			if c.Verdict == notShown {
				open = append(open, c.ID)
				missing, near = p.missing, p.near
			}
			fmt.Fprintf(&rows, "| <a id=\"claim-%s\"></a>%[1]s | %s | %s | %s | %s%s | %s%s |\n", c.ID,
				strings.Join(strings.Split(c.From, ""), " "), c.Said[p.lang], p.verdicts[c.Verdict],
				missing, c.Measured[p.lang], near, strings.Join(p.shown(t, c, word, cases), "<br>"))
		}
	}
	var sum []string
	for _, v := range noteVerdicts {
		if count[v] == 0 {
			continue
		}
		sum = append(sum, fmt.Sprintf("%s%s%d", p.verdicts[v], p.colon, count[v]))
	}
	page := "<!-- made from notes.yaml: docs/refresh said -->\n" +
		fmt.Sprintf(p.head, total, strings.Join(sum, p.comma)) + rows.String()
	if len(open) > 0 {
		slices.SortFunc(open, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		for i, id := range open {
			open[i] = fmt.Sprintf("[%s](#claim-%[1]s)", id)
		}
		page += fmt.Sprintf(p.open, len(open), strings.Join(open, p.comma))
	}
	return page
}

// shown are the places where a claim is shown.
func (p notesPage) shown(t *testing.T, c claim, word map[string]string, cases map[[2]string]string) (places []string) {
	t.Helper()
	last := ""
	for _, e := range c.Evidence {
		seen := fmt.Sprintf("%s → [%s](failure-modes.md#%s)", cases[[2]string{e[0], e[1]}], word[e[2]], e[0])
		if e[0] == last {
			places[len(places)-1] += p.semicolon + seen
			continue
		}
		places, last = append(places, "`"+e[0]+"`"+p.colon+seen), e[0]
	}
	for _, link := range c.See {
		places = append(places, p.link(t, link))
	}
	for _, command := range c.Run {
		places = append(places, "`"+command+"`")
	}
	return places
}

var firstNumber = regexp.MustCompile(`\d+`)

// link is the link of a row to a section of a document. Where the document exists in Chinese, the Chinese page links
// to the same section of that.
func (p notesPage) link(t *testing.T, to string) string {
	t.Helper()
	if page, ok := strings.CutPrefix(to, "https://"); ok {
		host, _, _ := strings.Cut(page, "/")
		return fmt.Sprintf("[%s](%s)", host, to)
	}
	file, anchor, _ := strings.Cut(to, "#")
	names := sections(t, file)
	at := 0
	if anchor != "" {
		if at = slices.IndexFunc(names, func(s section) bool { return s.anchor == anchor }); at < 0 {
			t.Errorf("notes.yaml links to %s, but there is no such section", to)
			return ""
		}
	}
	if twin := strings.TrimSuffix(file, ".md") + ".zh-CN.md"; p.lang != "en" {
		if _, err := os.Stat(twin); err == nil {
			file, names = twin, sections(t, twin)
		}
	}
	label := names[at].title
	for kind, text := range p.labels {
		if !strings.HasPrefix(file, kind) {
			continue
		}
		label = text
		if strings.Contains(text, "%s") {
			number := firstNumber.FindString(strings.TrimPrefix(file, kind+"/") + names[at].title)
			label = fmt.Sprintf(text, strings.TrimLeft(number, "0"))
		}
	}
	if anchor != "" {
		file += "#" + names[at].anchor
	}
	return fmt.Sprintf("[%s](%s)", label, file)
}

// A section of a document begins with a heading, or with a name that the document gives it.
type section struct{ title, anchor string }

// sections are those of a document, in order. A document and its translation have the same ones.
func sections(t *testing.T, file string) (list []section) {
	t.Helper()
	if filepath.Ext(file) != ".md" {
		return []section{{title: filepath.Base(file)}}
	}
	for _, m := range heading.FindAllStringSubmatch(document(t, filepath.Join("docs", file)), -1) {
		list = append(list, section{m[1] + m[2], m[2] + anchorOf(m[1])})
	}
	return list
}

var goTest = regexp.MustCompile(`^go test (?:\./|example\.com/stock/)([a-z/]+) -run '\^((?:Test|Fuzz)[A-Za-z0-9]+)\$'$`)

// runnable says why a command of a row cannot be run.
func runnable(t *testing.T, command string) error {
	t.Helper()
	words := strings.Fields(command)
	if m := goTest.FindStringSubmatch(command); m != nil {
		if !testExists(t, m[1], m[2]) {
			return fmt.Errorf("there is no %s in %s", m[2], m[1])
		}
		return nil
	}
	switch words[0] {
	case "bin/stock":
		_, err := os.Stat(filepath.Join("..", "cmd", "stock", words[1]+".go"))
		return err
	case "make":
		if !slices.Contains(targetsOfMake(t), words[1]) {
			return fmt.Errorf("make has no target %s", words[1])
		}
		return nil
	}
	return fmt.Errorf("%q is no command of this project", command)
}

// Every claim of the notes has a verdict and at least one link, what the lab saw of it is what the row says, and the
// pages say what the file says.
func TestNotes(t *testing.T) {
	var subjects []subject
	decode(t, "notes.yaml", &subjects)
	seen, ids := observed(t), map[string]bool{}
	for _, s := range subjects {
		if s.Title["en"] == "" || s.Title["zh"] == "" {
			t.Errorf("subject %q: a title is missing", s.Title)
		}
		for _, c := range s.Claims {
			if n, err := strconv.Atoi(c.ID); err != nil || n < 1 || n > numberOfClaims || ids[c.ID] {
				t.Errorf("claim %q: its id must be its own number from 1 to %d", c.ID, numberOfClaims)
			}
			ids[c.ID] = true
			if !slices.Contains(noteVerdicts, c.Verdict) {
				t.Errorf("claim %s: verdict %q", c.ID, c.Verdict)
			}
			if len(c.Evidence)+len(c.See)+len(c.Run) == 0 || strings.Trim(c.From, "ABCDE") != "" || c.From == "" {
				t.Errorf("claim %s: it has no link, or is from %q", c.ID, c.From)
			}
			restsOn(t, c.card, seen)
			for _, command := range c.Run {
				if err := runnable(t, command); err != nil {
					t.Errorf("claim %s: %v", c.ID, err)
				}
			}
		}
	}
	if len(ids) != numberOfClaims {
		t.Errorf("%d claims, the notes have %d", len(ids), numberOfClaims)
	}
	words, cases := outcomeWords(t), caseNames(t)
	for _, p := range notesPages {
		compare(t, p.file, p.render(t, subjects, words[p.lang], cases[p.lang]))
	}
}
