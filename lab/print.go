package lab

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// WriteScenario writes what a scenario is about.
func WriteScenario(w io.Writer, s Scenario, lang string) {
	words := [][2]string{{"set up", "准备"}, {"forced", "强制"}, {"why", "原因"}, {"fix", "修复"}}
	fmt.Fprintf(w, "\n%s (%s)\n", s.Title.In(lang), s.Name)
	for i, text := range []Text{s.Setup, s.Forced, s.Why, s.Fix} {
		fmt.Fprintf(w, "  %s: %s\n", Text{words[i][0], words[i][1]}.In(lang), text.In(lang))
	}
}

// WriteCell writes what was predicted and seen, with the evidence, and if wanted the events.
func WriteCell(w io.Writer, c Cell, events bool, lang string) {
	fmt.Fprintf(w, "  %s %s: %s\n", c.mark(), c.Case().Said().In(lang), c.Verdict().In(lang))
	for _, e := range c.Evidence {
		fmt.Fprintf(w, "        %s\n", e.Said().In(lang))
	}
	if !events {
		return
	}
	for _, e := range c.Events {
		until := ""
		if !e.Until.IsZero() {
			until = fmt.Sprintf(" to %+.0f", ms(e.Until.Sub(c.StartedAt)))
		}
		fmt.Fprintf(w, "        %+6.0f%s ms  %-10s %-9s %s\n", ms(e.At.Sub(c.StartedAt)), until, e.Lane, e.Kind, e.Said().In(lang))
	}
}

// Verdict says in words what a cell comes to. The word of the matrix stands in it as it is, in Chinese beside its translation.
func (c Cell) Verdict() Text {
	why := Text{"stated", "直接写明"}
	if c.Predicted.From != "" {
		why = Text{"from its promise, " + c.Predicted.From, "出自承诺，" + c.Predicted.From}
	}
	switch {
	case c.Skipped != "":
		return Text{"skipped, " + c.Skipped, "跳过，" + c.Skipped}
	case c.Failed != "":
		return Text{"no verdict: " + c.Failed, "没有结论：" + c.Failed}
	}
	seen := Text{string(c.Observed), string(c.Observed) + " " + c.Observed.Word().ZH}
	if c.AfterMS != 0 {
		after := time.Duration(c.AfterMS * float64(time.Millisecond)).Round(time.Millisecond)
		seen = Text{fmt.Sprintf("%s, %v", seen.EN, after), fmt.Sprintf("%s，%v", seen.ZH, after)}
	}
	if c.AsPredicted {
		return Text{fmt.Sprintf("%s, as predicted (%s)", seen.EN, why.EN), fmt.Sprintf("%s，与预测一致（%s）", seen.ZH, why.ZH)}
	}
	return Text{
		fmt.Sprintf("%s, BUT PREDICTED: %s (%s)", seen.EN, c.Predicted, why.EN),
		fmt.Sprintf("%s，但预测为 %s（%s）", seen.ZH, c.Predicted, why.ZH),
	}
}

func (c Cell) mark() string {
	switch {
	case c.Skipped != "":
		return "-"
	case c.AsPredicted:
		return "✓"
	default:
		return "✗"
	}
}

// WriteSummary writes how many cells came to what, and names those that are wrong.
func WriteSummary(w io.Writer, r Report, lang string) {
	wrong, skipped := r.Wrong(), r.Skipped()
	count := Text{"\n%d cells in %.0f s: %d as predicted, %d not, %d skipped.\n", "\n%d 格，用时 %.0f 秒：%d 格与预测一致，%d 格不一致，%d 格跳过。\n"}
	fmt.Fprintf(w, count.In(lang), len(r.Cells), r.TookMS/1000, len(r.Cells)-len(wrong)-len(skipped), len(wrong), len(skipped))
	again := Text{"was tried again, because at first", "重试过一次，起初"}.In(lang)
	for _, c := range r.Cells {
		if c.Before != "" {
			fmt.Fprintf(w, "  ! %s: %s: %s: %s\n", c.Scenario, c.Case().Said().In(lang), again, firstLine(c.Before))
		}
	}
	for _, c := range append(wrong, skipped...) {
		fmt.Fprintf(w, "  %s %s: %s: %s\n", c.mark(), c.Scenario, c.Case().Said().In(lang), firstLine(c.Verdict().In(lang)))
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
