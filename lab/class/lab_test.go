package class

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// A run of the lab opens in the player, which chooses a case and steps through its diagram, on a server and as one
// file; and it says what was seen.
func TestALabRunIsReplayed(t *testing.T) {
	content, err := os.ReadFile(filepath.Join("..", "diagram", "testdata", "run.json"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := ReadAny(bytes.NewReader(content), "en")
	if err != nil {
		t.Fatal(err)
	}
	cells := run.(*LabRun).cells
	last := len(cells) - 1
	const title = "The holder is frozen past its lease"
	for i := range cells { // older runs, such as this one, have names only
		if cells[i].Scenario == cells[last].Scenario {
			cells[i].Title = map[string]string{"en": title, "zh": "持有者被冻结到租约过期"}
		}
	}
	s, addresses := played(t, run)
	for _, address := range addresses {
		s.open(address+"?lang=en", 1366, 900)
		pick(s, "#scenario", cells[last].Scenario)
		s.until("another scenario is shown", fmt.Sprintf(`document.querySelector("h1").textContent.startsWith(%q)`,
			title+": "))
		s.until("there is one row of navigation", `[...document
			.querySelectorAll("#p-play, #p-back, #p-on, .steps-next")].filter(e => e.checkVisibility())
			.every((e, _, all) => e.offsetTop === all[0].offsetTop)`)
		pick(s, "#case", fmt.Sprint(last))
		s.until("another case is shown", fmt.Sprintf(`document.body.dataset.shown === "%d"`, last))
		s.until("what was seen", fmt.Sprintf(`document.querySelector("#verdict").textContent.includes(%q)`,
			cells[last].Outcome["en"]))
		ask[any](s, `document.activeElement.blur(); null`)
		s.press(kb.ArrowRight)
		s.press(kb.ArrowRight)
		s.until("two steps are done", `document.body.dataset.step === "2"`)
		s.press(kb.ArrowLeft)
		s.until("one is", `document.body.dataset.step === "1"`)
		s.press(kb.End)
		s.until("all are", `document.body.dataset.step === document.querySelector("figure.steps").dataset.steps`)
		s.until("the heads of the lanes stay in view", `(() => {
			const scroll = document.querySelector(".steps-scroll")
			scroll.style.maxHeight = "200px"
			scroll.scrollTop = scroll.scrollHeight
			const [heads, box] = [scroll.querySelector(".heads"), scroll].map(e => e.getBoundingClientRect())
			return scroll.scrollTop > 0 && Math.abs(heads.top - box.top) < 3
		})()`)
		s.press("e")
		s.until("in Chinese", fmt.Sprintf(`document.querySelector("#verdict").textContent.includes(%q)`,
			cells[last].Outcome["zh"]))
		s.fits("lab", 1366)
	}
	s.quiet()
}

// pick chooses an option.
func pick(s *screen, what, value string) {
	s.t.Helper()
	ask[any](s, fmt.Sprintf(`(select => {
		select.value = %q
		select.dispatchEvent(new Event("change"))
		return null
	})(document.querySelector(%q))`, value, what))
}

// What is no run of the lab, or has nothing to be shown, is refused.
func TestReadLab(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{`{"version":99,"started_at":"2026-01-01T00:00:00Z","took_ms":1,"cells":[]}`, "version 99"},
		{`{"version":1,"started_at":"2026-01-01T00:00:00Z","took_ms":1,"cells":[]}`, "no case"},
		{`{"version":1,"started_at":"2026-01-01T00:00:00Z","took_ms":1,"cells":[`, "unexpected EOF"},
	} {
		_, err := ReadAny(strings.NewReader(row.text), "en")
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %s", row.text, err, row.want)
		}
	}
}
