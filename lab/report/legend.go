package report

import (
	"html/template"

	"example.com/stock/lab"
)

// A legend explains one kind of mark.
type legend struct {
	Sample template.HTML
	Text   lab.Text
}

// legendOf explains the marks that occur in the timeline of a cell.
func legendOf(c lab.Cell) []legend {
	s := newStory(c)
	occurs := make(map[string]bool)
	for _, e := range c.Events {
		occurs[string(e.Kind)] = true
		if s.offends(e) {
			occurs["offence"] = true
		}
	}
	occurs["overlap"] = len(s.meetings()) > 0
	var list []legend
	for _, m := range []struct {
		kind   string
		en, zh string
	}{
		{"sent", "a request comes", "请求到达"},
		{"answered", "it is answered", "得到应答"},
		{"lease", "holds the lock, as it believes", "自认为持有锁"},
		{"standing", "holds the lock, as the server has it", "服务器记录的持有者"},
		{"overlap", "two believe it at once", "两个都自认为持有"},
		{"paused", "stands at a pause point", "停在暂停点"},
		{"fault", "the fault", "故障期间"},
		{"write", "an order is written", "写入订单"},
		{"offence", "a write from a version that another has read, too", "与别人读到同一版本的写入"},
		{"refused", "a write is refused", "写入被拒绝"},
		{"note", "a step, or what a server said", "一个步骤，或服务器的回答"},
	} {
		if occurs[m.kind] {
			list = append(list, legend{sample(m.kind), lab.Text{EN: m.en, ZH: m.zh}})
		}
	}
	return list
}

func sample(kind string) template.HTML {
	inner := `<g transform="translate(13 7)">` + glyph(kind) + `</g>`
	switch kind {
	case "lease", "standing", "overlap":
		inner = `<rect class="` + kind + `" x="1" y="1" width="24" height="12"/>`
	case "paused":
		inner = `<rect class="paused" x="1" y="1" width="24" height="12"/>`
	case "fault":
		inner = `<rect class="fault" x="1" y="1" width="24" height="12"/><rect class="faulty" x="1" y="1" width="24" height="12"/>`
	}
	return template.HTML(`<svg width="26" height="14" aria-hidden="true">` + inner + `</svg>`)
}
