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

// setting reads how the stock is set: by one request, or by several.
func (t *table) setting(common question) (list []step) {
	if t.inSteps() {
		list = t.steps(&common, func(of *table) step { return of.step(common) })
		for i := range list {
			for _, s := range list[i].saves {
				t.saved = append(t.saved, s.name)
			}
		}
	} else {
		list = []step{{question: t.call(http.MethodPut, common), name: "1"}}
	}
	t.done()
	return list
}

// purchase reads the requests of a sale, and which of them sells.
func (t *table) purchase(common question) (list []step, sells int) {
	if !t.inSteps() {
		s := t.replies(step{question: t.request(http.MethodPost, common), name: "1", sells: true}, required)
		t.done()
		return []step{s}, 0
	}
	list = t.steps(&common, func(of *table) step {
		s := of.step(common)
		s.sells = of.sells()
		s.pending = of.rules("pending", optional)
		return of.replies(s, optional)
	})
	t.done()
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

// inSteps reports whether t has steps in place of one request.
func (t *table) inSteps() bool {
	if t.value("steps", optional) == nil {
		return false
	}
	if t.has("path") {
		t.bad("path", "and steps are two forms of the same: make the request a step, or leave steps out")
		t.asked = append(t.asked, "path")
	}
	return true
}

// steps reads a list of requests by read. The values that one saves are known to those after it. common gets what the
// section has for all of them.
func (t *table) steps(common *question, read func(*table) step) (list []step) {
	common.headers = t.headers(common.headers)
	if busy := t.rules("busy", optional); len(busy) > 0 {
		common.busy = busy
	}
	n := t.value("steps", required)
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
		s := read(of)
		s.name = name
		of.done()
		for _, saved := range s.saves {
			known = slices.Concat(known, []string{saved.name})
		}
		list = append(list, s)
	}
	return list
}

// step reads what the steps of set and deduct have in common.
func (t *table) step(common question) step {
	s := step{question: t.request(http.MethodPost, common)}
	t.ownBusy(&s)
	s.saves = t.savings()
	s.repeat = t.repetition()
	if s.accepted = t.rules("accepted", optional); len(s.accepted) == 0 && !t.has("accepted") {
		s.accepted, s.byDefault = rules{{status: successes()}}, true
	}
	return s
}

// ownBusy reads the rules for busy replies of a step, in place of those outside. What those outside take is busy,
// whatever the step says of a field in it.
func (t *table) ownBusy(s *step) {
	s.busyFirst = true
	if busy := t.rules("busy", optional); len(busy) > 0 {
		s.busy, s.busyFirst = busy, false
	}
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
	r.while = slices.Concat(of.rules("while", optional), of.rules("until", optional))
	if while == until {
		t.bad("repeat", "must have one of while and until, the rule for the replies after which it goes on, or ends")
	}
	r.every = cmp.Or(of.duration("every", 10*time.Millisecond, longest), repeatEvery)
	r.limit = cmp.Or(of.duration("for", time.Millisecond, longest), repeatFor)
	of.done()
	return r
}

// replies reads what the replies to a request of a purchase mean, and tell. need says whether accepted must be there.
func (t *table) replies(s step, need bool) step {
	if need {
		s.accepted = t.rules("accepted", need)
		t.ownBusy(&s)
	}
	s.soldOut = t.rules("sold_out", optional)
	s.orderID, s.instance = t.place("order_id", optional), t.place("instance", optional)
	s.effect = effect{t.place("read", optional), t.place("remaining", optional)}
	accepted := s.accepted
	if s.byDefault {
		accepted = nil
	}
	pairs := []struct {
		key string
		rules
	}{{"accepted", accepted}, {"sold_out", s.soldOut}, {"pending", s.pending}, {"busy", s.busy}}
	for i, b := range pairs {
		for _, a := range pairs[:i] {
			others := a.rules
			if b.key == "busy" && s.busyFirst {
				others = slices.DeleteFunc(slices.Clone(others), func(r rule) bool { return len(r.status) == 0 })
			}
			if status, both := others.overlaps(b.rules); both {
				t.bad(b.key,
					"takes status %s, as %s does: give each a field, and other values in equals, to tell them apart",
					status, a.key)
			}
		}
	}
	return s
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
