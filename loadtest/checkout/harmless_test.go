package checkout_test

import (
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// What came after the books were read is held against nobody.
func TestHarmlessEvidenceHolds(t *testing.T) {
	t.Parallel()
	s, url := serve(t)
	p := plan()
	p.Visits = 100
	base := &run(t, s, url, p).Evidence
	for name, do := range map[string]func(*checkout.Evidence, *checkout.Book){
		"nothing": func(*checkout.Evidence, *checkout.Book) {},
		"an event of a later movement": func(_ *checkout.Evidence, b *checkout.Book) {
			e := b.Events[len(b.Events)-1]
			e.ID += "-later"
			e.Data.Number = b.After.Number + 1
			b.Events = append(b.Events, e)
		},
		"a copy of the last movement's event under a later number": func(_ *checkout.Evidence, b *checkout.Book) {
			e := b.Events[len(b.Events)-1]
			e.Data.Number += 7
			b.Events = append(b.Events, e)
		},
		"nobody listened": func(e *checkout.Evidence, b *checkout.Book) {
			e.Unheard.EN, b.Events = "no relay", nil
		},
	} {
		e := clone(base)
		do(e, &e.Books[0])
		if v := checkout.Judge(e); v.Finding != loadtest.Holds {
			t.Errorf("%s: %s: %v", name, v.Sentence, failures(&v))
		}
	}
}
