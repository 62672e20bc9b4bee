package checkout_test

import (
	"slices"
	"strings"
	"testing"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// What came after the books were read is held against nobody.
func TestHarmlessEvidenceHolds(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Visits = 100
	_, r := run(t, p)
	base := &r.Evidence
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

// A run whose records lack all attempts of one request is no evidence, though the others follow each other.
func TestAMissingRequestIsNoticed(t *testing.T) {
	t.Parallel()
	p := plan()
	p.Visits = 100
	_, r := run(t, p)
	e := clone(&r.Evidence)
	gone := e.Records[len(e.Records)/2].Request
	e.Records = slices.DeleteFunc(e.Records, func(r checkout.Record) bool { return r.Request == gone })
	for i := range e.Records {
		e.Records[i].Seq = i + 1
	}
	v := checkout.Judge(e)
	missing := slices.ContainsFunc(v.Check(checkout.CheckSettled).Examples, func(text words.Text) bool {
		return strings.Contains(text.EN, "1 request")
	})
	if v.Finding == loadtest.Holds || !missing {
		t.Errorf("%s: %v", v.Sentence, failures(&v))
	}
}
