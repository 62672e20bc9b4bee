package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"example.com/stock/lab"
)

const head = `# Failure modes / 失败模式

Every row is a failure that the [fault lab](adr/0008-fault-lab.md) made happen on real servers, every column who it happened to. A word tells what came
of it, and leads to its evidence. All of this page is made by ` + "`make lab-matrix`" + ` from a run; nothing is typed. To see one happen:
` + "`bin/stock lab run NAME --html out/lab.html`" + `. To learn from them in order: [lessons](lessons/README.md).

每一行是[故障实验室](adr/0008-fault-lab.md)在真实服务器上强制发生的一种故障，每一列是它发生在谁身上；格子里的词说明结局，点开即见证据。本页全部由 ` + "`make lab-matrix`" + ` 根据一次
运行生成，没有一处手写。想亲眼看一个：` + "`bin/stock lab run 名称 --lang zh --html out/lab.html`" + `。想按顺序学：[课程](lessons/README.zh-CN.md)。

What was seen is in every cell what was predicted: it follows from the strategy's promise (the evidence says from which word of it), or is stated by
the scenario where the promise has no word for it. CI runs the lab and compares. An empty cell: nothing to see there, or not tried.

每个格子里的结果都与预测一致：预测由策略的承诺推出（证据里写明出自哪个词），承诺没有提到的，由场景直接写明。CI 会重新运行并比较。空格表示与之无关，或没有尝试。

| word | 词 | means | 含义 |
|---|---|---|---|
`

// WriteMarkdown writes the matrix and the evidence of a whole run, without what differs from run to run.
func WriteMarkdown(w io.Writer, r lab.Report) error {
	b := bufio.NewWriter(w)
	b.WriteString(head)
	for _, m := range meanings() {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", bold(m, m.Word().EN), m.Word().ZH, m.Means.EN, m.Means.ZH)
	}
	list := tables(r, false)
	for _, t := range list {
		fmt.Fprintf(b, "\n## %s. %s / %s\n\n", t.Group, t.Name.EN, t.Name.ZH)
		t.markdown(b)
	}
	b.WriteString("\n## Evidence / 证据\n\nTimes are rounded, fences numbered by size and instances by appearance; the page of HTML has them as they were.\n\n" +
		"时间已取整，栅栏令牌按大小、实例按出现顺序编号；HTML 页面里是原样。\n")
	for _, t := range list {
		for _, row := range t.Rows {
			if row.First {
				prove(b, r, row.Scenario)
			}
		}
	}
	return b.Flush()
}

func (t *table) markdown(b *bufio.Writer) {
	columns := t.Strategies
	if t.HasCode {
		columns = append([]string{"the lab's own code / 实验代码"}, columns...)
	}
	fmt.Fprintf(b, "| failure / 故障 | variant / 变体 | %s |\n|---|---|%s\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, row := range t.Rows {
		title := ""
		if row.First {
			title = fmt.Sprintf("[%s](#%s)<br>%s", row.Scenario.Title.EN, row.Scenario.Name, row.Scenario.Title.ZH)
		}
		fmt.Fprintf(b, "| %s | %s |", title, row.Variant.EN)
		if t.HasCode {
			var lines []string
			for _, e := range row.Code {
				lines = append(lines, e.Case.String()+": "+e.link())
			}
			fmt.Fprintf(b, " %s |", strings.Join(lines, "<br>"))
		}
		for _, e := range row.Cells {
			fmt.Fprintf(b, " %s |", e.link())
		}
		b.WriteString("\n")
	}
}

func (e *entry) link() string {
	if e == nil {
		return ""
	}
	return fmt.Sprintf("[%s](#%s)", bold(e.Meaning, e.Word().EN), e.Anchor)
}

// bold marks harm for who sees no colours.
func bold(m meaning, text string) string {
	if m.Class == "bad" {
		return "**" + text + "**"
	}
	return text
}

// prove writes what a scenario is and what was seen of each case.
func prove(b *bufio.Writer, r lab.Report, s lab.Scenario) {
	fmt.Fprintf(b, "\n<a id=%q></a>\n\n### %s / %s\n\n`bin/stock lab run %s`\n\n", s.Name, s.Title.EN, s.Title.ZH, s.Name)
	for _, part := range parts(s) {
		fmt.Fprintf(b, "- %s: %s\n", part.Name.EN, part.Text.EN)
	}
	b.WriteString("\n<details><summary>中文</summary>\n\n")
	for _, part := range parts(s) {
		fmt.Fprintf(b, "- %s：%s\n", part.Name.ZH, part.Text.ZH)
	}
	b.WriteString("\n</details>\n\n")
	for _, e := range entries(r, s) {
		from := "stated"
		if e.Cell.Predicted.From != "" {
			from = "from its promise, " + e.Cell.Predicted.From
		}
		fmt.Fprintf(b, "- <a id=%q></a>%s: %s, as predicted (%s)\n", e.Anchor, e.Case, bold(e.Meaning, e.Word().EN), from)
		for _, line := range Generic(facts(e.Cell)) {
			fmt.Fprintf(b, "  - %s\n", plain.Replace(line))
		}
	}
}

// crowded is how many answers are told one by one.
const crowded = 6

// facts are the evidence of a cell. Many answers are only counted: who of many was served when is not the same twice.
func facts(c lab.Cell) []string {
	var all, lines, answers []string
	told := make(map[string]int)
	for _, proof := range c.Evidence {
		all = append(all, proof.Text)
		if proof.Kind == lab.Answer {
			answers = append(answers, proof.Text)
			_, what, _ := strings.Cut(proof.Text, ": ")
			what, _, _ = strings.Cut(what, ",")
			told[what]++
			continue
		}
		lines = append(lines, proof.Text)
	}
	if len(answers) <= crowded {
		return all
	}
	for _, what := range slices.Sorted(maps.Keys(told)) {
		lines = append(lines, fmt.Sprintf("%d of %d customers: %s", told[what], len(answers), what))
	}
	return lines
}

// plain keeps evidence from being read as markup.
var plain = strings.NewReplacer("\n", " ", "*", `\*`, "_", `\_`, "<", "&lt;", "|", `\|`)

// A part is one of the texts of a scenario.
type part struct{ Name, Text lab.Text }

func parts(s lab.Scenario) []part {
	return []part{
		{lab.Text{EN: "set up", ZH: "准备"}, s.Setup},
		{lab.Text{EN: "forced", ZH: "强制"}, s.Forced},
		{lab.Text{EN: "why", ZH: "原因"}, s.Why},
		{lab.Text{EN: "fix", ZH: "修复"}, s.Fix},
	}
}
