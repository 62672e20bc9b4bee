package mapping

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
)

const (
	repeatEvery = 200 * time.Millisecond // unless the mapping tells others
	repeatFor   = 10 * time.Second
	longest     = 10 * time.Minute
)

// setting reads how the stock is set.
func (t *table) setting(common question) []step {
	list := t.requests(common.by(http.MethodPut), func(of *table, common question) step {
		return of.step(of.call(common))
	})
	for i := range list {
		for _, s := range list[i].saves {
			t.saved = append(t.saved, s.name)
		}
	}
	return list
}

// purchase reads the requests of a sale, and which of them sells.
func (t *table) purchase(common question) (list []step, sells int) {
	list = t.requests(common.by(http.MethodPost), func(of *table, common question) step {
		s := of.step(of.request(common))
		s.sells = of.sells()
		s.soldOut, s.pending = of.rules("sold_out"), of.rules("pending")
		s.orderID, s.instance = of.place("order_id", optional), of.place("instance", optional)
		s.effect = effect{of.place("read", optional), of.place("remaining", optional)}
		of.toldApart(&s)
		return s
	})
	if !t.has("steps") {
		list[0].sells = true
	}
	var selling []int
	for i := range list {
		if list[i].sells {
			selling = append(selling, i)
		}
	}
	if len(selling) != 1 {
		t.bad("steps", "must have sells: true in exactly one step, the one from which on units may be gone, and have "+
			"it in %d", len(selling))
		return list, 0
	}
	t.order(list, selling[0])
	return list, selling[0]
}

// requests reads the requests of t by read, which gets what they have in common: the steps or, without any, the one
// request that t is. The values that a step saves are known to those after it.
func (t *table) requests(common question, read func(of *table, common question) step) (list []step) {
	n := t.value("steps", optional)
	if n == nil {
		s := read(t, common)
		s.name = "1"
		t.done()
		return []step{s}
	}
	if t.has("path") {
		t.bad("path", "and steps are two forms of the same: make the request a step, or leave steps out")
		t.asked = append(t.asked, "path")
	}
	common = question{method: http.MethodPost, headers: t.headers(common.headers), busy: t.busy(common.busy)}
	t.done()
	if at := target(n); at.Kind != yaml.SequenceNode || len(at.Content) == 0 {
		t.bad("steps", "must be a list of requests, at least one: [{path: ...}, ...]")
		return nil
	}
	known := t.known
	for i, entry := range target(n).Content {
		name := strconv.Itoa(i + 1)
		of := t.table(t.field("steps")+"."+name, entry)
		if of == nil {
			continue
		}
		if given := of.text("name", optional); given != "" {
			name, of.name = given, t.field("steps")+"."+given
		}
		if slices.ContainsFunc(list, func(s step) bool { return s.name == name }) {
			of.bad("name", "is the name of an earlier step, too: give each another")
		}
		of.known = known
		s := read(of, common)
		s.name = name
		of.done()
		for _, saved := range s.saves {
			known = slices.Concat(known, []string{saved.name})
		}
		list = append(list, s)
	}
	return list
}

// step reads what the requests of set and deduct may have.
func (t *table) step(q question) step {
	return step{question: q, saves: t.savings(), repeat: t.repetition()}
}

// sells reports whether the step sells.
func (t *table) sells() bool {
	text := t.text("sells", optional)
	if text != "" && text != "true" && text != "false" {
		t.bad("sells", "%q is neither true nor false", text)
	}
	return text == "true"
}

func (t *table) savings() (list []saving) {
	of := t.sub("save", optional)
	if of == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(of.values)) {
		n := of.values[name]
		switch {
		case !isVariable(name):
			of.bad(name, "cannot be the name of a variable: take letters, digits and _, and no name that is taken")
		case slices.Contains(t.known, name):
			of.bad(name, "is known already: take another name")
		}
		list = append(list, saving{entry{n.Line, of.field(name)}, name, of.place(name, required)})
	}
	t.saves = append(t.saves, list...)
	return list
}

func (t *table) repetition() *repetition {
	of := t.sub("repeat", optional)
	if of == nil {
		return nil
	}
	while, until := of.has("while"), of.has("until")
	r := &repetition{until: until}
	r.while = slices.Concat(of.rules("while"), of.rules("until"))
	if while == until {
		t.bad("repeat", "must have one of while and until, the rule for the replies after which it goes on, or ends")
	}
	r.every = cmp.Or(of.duration("every", 10*time.Millisecond, longest), repeatEvery)
	r.limit = cmp.Or(of.duration("for", time.Millisecond, longest), repeatFor)
	of.done()
	return r
}

// toldApart notes it if a reply to s is sure to mean two things.
func (t *table) toldApart(s *step) {
	accepted := s.accepted
	if s.byDefault {
		accepted = nil
	}
	meanings := []struct {
		key string
		rules
	}{{"accepted", accepted}, {"sold_out", s.soldOut}, {"pending", s.pending}, {"busy", s.busy}}
	for i, b := range meanings {
		for _, a := range meanings[:i] {
			if status, both := a.overlaps(b.rules); both {
				t.bad(b.key, "takes status %s, as %s does: give each a field to tell them apart", status, a.key)
			}
		}
	}
}

// order checks what depends on the order of the steps of a purchase.
func (t *table) order(list []step, sells int) {
	bad := func(s *step, key, format string, args ...any) { t.add(s.line, s.field+"."+key, format, args...) }
	seller := &list[sells]
	decides := sells // the last step that can decide
	if len(seller.pending) > 0 {
		decides++
	}
	switch {
	case seller.repeat != nil:
		bad(seller, "repeat", "would sell again: give it to a step that does not sell")
	case seller.byDefault && len(seller.pending) == 0:
		bad(seller, "accepted", "is missing: the step that sells needs it, or pending, to tell which replies are sales")
	case decides == len(list):
		bad(seller, "pending", "needs a step after this one, which tells what became of the sale")
	}
	if len(seller.pending) > 0 && seller.byDefault {
		seller.accepted, seller.byDefault = nil, false
	}
	for i := range list {
		s := &list[i]
		if i != sells && len(s.pending) > 0 {
			bad(s, "pending", "is for the step that sells, %s", seller.name)
		}
		if !s.orderID.empty() && i > decides {
			bad(s, "order_id", "comes after the sale is decided: give it to %s; or make what %s accepts pending, and "+
				"let the next step decide", list[min(decides, len(list)-1)].name, seller.name)
		}
		if (!s.read.empty() || !s.remaining.empty()) && (i < sells || i > decides) {
			bad(s, "read", "and remaining are of the sale: give them to the step that sells, %s", seller.name)
		}
	}
}

// needsOrderID notes it if an accepted reply could be without an order id, as one step after the other is replied to.
func (f *File) needsOrderID(top *table, line int) {
	for i := range f.deduct {
		s := &f.deduct[i]
		if !s.orderID.empty() {
			return
		}
		if i >= f.sells && len(s.accepted) > 0 {
			top.add(line, s.field+".order_id",
				"is missing: without it no reply can be found among the orders; or leave orders out")
			return
		}
	}
}
