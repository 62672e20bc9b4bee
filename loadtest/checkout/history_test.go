package checkout_test

import (
	"errors"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// What is no history of a checkout is refused with the line and the reason; see the test of that name in loadtest.
func TestReadHistoryNamesTheLine(t *testing.T) {
	t.Parallel()
	const header = `{"format":"stock-checkout-history","version":2,"plan":{"visits":1,"ttl":"1s","timeout":"1s"},` +
		`"before":[{"sku":"a"}]}` + "\n"
	const event, end = `{"movement":{"sku":"a"}}` + "\n", `{"end":{"after":[],"interrupted":false}}` + "\n"
	for _, row := range []struct{ name, text, want string }{
		{"another", "{}\n", `line 1: a history begins with {"format":"stock-checkout-history"`},
		{
			"too many SKUs", strings.Replace(header, `"visits"`, `"skus":4611686018427387904,"visits"`, 1),
			"line 1: plan: skus: must be from 1 to 200, not 4611686018427387904",
		},
		{
			"too many units", strings.Replace(header, `"visits"`, `"quantities":[1,1000,1001],"visits"`, 1),
			"line 1: plan: quantity: must be from 1 to 1000, not 1001",
		},
		{"no end", strings.Replace(header, `"visits":1,`, "", 1), "line 1: plan: visits: "},
		{"unknown key", header + `{"movment":{}}` + "\n", `line 2: json: unknown field "movment"`},
		{"nothing", header + "{}\n", "line 2: must be an attempt"},
		{"another SKU", header + strings.Replace(event, `"a"`, `"b"`, 1), `line 2: the SKU "b" is not in the first`},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r, err := checkout.ReadHistory(strings.NewReader(row.text))
			if r != nil || err == nil || !strings.HasPrefix(err.Error(), row.want) {
				t.Errorf("got %v, want %q", err, row.want)
			}
		})
	}
	whole, err := checkout.ReadHistory(strings.NewReader(header + event + end))
	if err != nil || len(whole.Books[0].Movements) != 1 || whole.Interrupted {
		t.Errorf("a whole one: %+v, %v", whole, err)
	}
	nothing, err := checkout.ReadHistory(strings.NewReader(header + end))
	if err != nil || nothing.Verdict.Finding != loadtest.Undecided {
		t.Errorf("one in which nothing was sold: %v, %v", nothing.Verdict, err)
	}
	cut, err := checkout.ReadHistory(strings.NewReader(header + event + end[:20]))
	if !errors.Is(err, loadtest.ErrCut) || len(cut.Books[0].Movements) != 1 || !cut.Interrupted {
		t.Errorf("one that was cut off: %+v, %v", cut, err)
	}
}
