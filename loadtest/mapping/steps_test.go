package mapping_test

import (
	"cmp"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// buy puts load on a shop that sells in steps and has 10 units.
func buy(t *testing.T, s *stepShop, text string, requests int) *loadtest.Result {
	t.Helper()
	file, err := mapping.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	target, err := mapping.NewTarget(server.URL, "s3cret", 4, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	r, err := loadtest.Run(t.Context(), target, loadtest.Plan{
		Strategy: file.Name(), SKU: "shirt", Stock: 10, Requests: cmp.Or(requests, 15), Concurrency: 4,
		Recheck: new(time.Duration), Late: file.Late(), Timeout: 5 * time.Second,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func outcomes(r *loadtest.Result) map[loadtest.Outcome]int {
	n := make(map[loadtest.Outcome]int)
	for i := range r.Records {
		n[r.Records[i].Outcome]++
	}
	return n
}

// A sale in steps is one sale, whether the step that sells decides or the one after it, and is told as its steps.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		for _, holds := range []bool{false, true} {
			s := &stepShop{later: later, holds: holds}
			r := buy(t, s, s.mapping(), 0)
			n := outcomes(r)
			if r.Verdict.Finding != loadtest.Holds || n[loadtest.Accepted] != 10 || n[loadtest.SoldOut] != 5 {
				t.Errorf("later %v, holds %v: %s %v %v", later, holds, r.Verdict.Finding, n, r.Verdict.Reasons)
			}
			for i := range r.Records {
				p := r.Records[i].Purchase
				want := 3
				if later {
					want = 4
				}
				if r.Records[i].Outcome == loadtest.Accepted && (p.Sells != 3 || p.Decided != want || len(p.Steps) != 4) {
					t.Errorf("%+v", p)
				}
			}
		}
	}
}

// A request by one step that sells is the same as one without steps.
func TestOneStep(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("  path: /orders\n  body:", "  steps:\n  - path: /orders\n    sells: true\n    body:",
		"  accepted:", "    accepted:", "  sold_out:", "    sold_out:", "  busy:", "    busy:",
		"  order_id: header", "    order_id: header").Replace(linesMapping)
	judgeBoth(t, linesShop, text, "7")
}

func TestWrongSteps(t *testing.T) {
	t.Parallel()
	replace := func(old, text string) string { return strings.Replace(stepMapping, old, text, 1) }
	for _, row := range []struct{ text, want string }{
		{replace("deduct:\n", "deduct:\n  path: /buy\n"), "line 12: deduct.path: and steps are two forms"},
		{
			replace("deduct:\n", "deduct:\n  order_id: id\n"),
			"line 12: deduct.order_id: is no key of deduct; there is auth, busy, headers, steps",
		},
		{least + "set: {steps: []}", "line 4: set.steps: must be a list of requests"},
		{least + "set: {steps: {path: /a}}", "line 4: set.steps: must be a list of requests"},
		{replace("name: line", "name: cart"), "line 14: deduct.steps.cart.name: is the name of an earlier step"},
		{replace("sells: true, ", ""), "line 13: deduct.steps: must have sells: true in exactly one step"},
		{replace("name: wait", "sells: true, name: wait"), "line 13: deduct.steps: must have sells: true in exactly one"},
		{replace("sells: true", "sells: maybe"), `line 18: deduct.steps.checkout.sells: "maybe" is neither true nor`},
		{replace("sells: true", "sells: true, repeat: {until: {status: 200}}"), "deduct.steps.checkout.repeat: would sell"},
		{replace(stepDecides+", ", ""), "line 18: deduct.steps.checkout.accepted: is missing"},
		{replace("{name: wait,", "{name: wait, pending: {status: 202},"), "deduct.steps.wait.pending: is for the step that"},
		{stepMapping[:strings.Index(stepMapping, "    - {name: wait")], "deduct.steps.checkout.pending: needs a step after"},
		{replace("save: {cart:", "save: {sku:"), "line 13: deduct.steps.cart.save.sku: cannot be the name of a variable"},
		{replace("save: {cart:", "save: {variant:"), "deduct.steps.cart.save.variant: is known already"},
		{replace("save: {order:", "save: {cart:"), "deduct.steps.checkout.save.cart: is known already"},
		{replace("save: {order:", "save: {held:"), "deduct.steps.checkout.save.held: is known already"},
		{replace("/carts, save", "'/carts/{{order}}', save"), "deduct.steps.cart.path: {{order}} is not known here"},
		{replace("read: {path: \"/stock", "read: {path: \"/{{cart}}"), "read.path: {{cart}} is not known here"},
		{replace("repeat: {while", "repeat: {until: {status: 200}, while"), "wait.repeat: must have one of while and until"},
		{replace("while: {field: state, equals: pending}, ", ""), "wait.repeat: must have one of while and until"},
		{replace("every: 10ms", "every: 9ms"), `wait.repeat.every: "9ms" is no duration from 10ms`},
		{replace("for: 2s", "for: 11m"), `wait.repeat.for: "11m" is no duration from 1ms to 10m0s`},
		{replace("every: 10ms", "each: 10ms"), "wait.repeat.each: is no key of deduct.steps.wait.repeat; there is every, for"},
		{replace("order_id: id, save", "save"), "deduct.steps.wait.order_id: is missing"},
		{
			strings.Replace(replace("order_id: id, save", "save"), "name: cart", "name: cart, read: left, order_id: id", 1),
			"deduct.steps.cart.read: and remaining are of the sale",
		},
		{
			strings.Replace(replace(stepDecides+", order_id: id", "accepted: {status: 202}"), "name: wait",
				"name: wait, order_id: id", 1), "deduct.steps.wait.order_id: comes after the sale is decided",
		},
		{replace("save: {held: reserved}", "sells: true"), "line 8: set.steps.1.sells: is no key of set.steps.1"},
		{replace("equals: confirmed", "equals: rejected"), "deduct.steps.wait.sold_out: takes status 200, as accepted"},
	} {
		_, err := mapping.Parse([]byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%v; want %s", err, row.want)
		}
	}
}

// What ends a purchase before the step that sells is told with that step's name.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		step, trouble string
		outcome       loadtest.Outcome
		decided       int
		says          string
	}{
		{"POST carts", "cut", loadtest.Failed, 1, "step cart: no whole reply"},
		{"POST carts lines", "serve and cut", loadtest.Failed, 2, "step line: no whole reply"},
		{"POST carts lines", "fail", loadtest.Failed, 2, "step line: status 500"},
		{"POST carts checkout", "cut", loadtest.Unknown, 3, "step checkout: no whole reply"},
		{"POST carts checkout", "fail", loadtest.Unknown, 3, "step checkout: status 500"},
		{"POST carts checkout", "busy", loadtest.Busy, 3, ""},
		{"GET order", "cut", loadtest.Unknown, 4, "step wait: no whole reply"},
		{"GET order", "fail", loadtest.Unknown, 4, "step wait: status 500"},
	} {
		for _, later := range []bool{true, false} {
			s := &stepShop{later: later}
			s.trouble = func(step string, n int) string {
				if step != row.step || n > 1 {
					return ""
				}
				return row.trouble
			}
			file, err := mapping.Parse([]byte(s.mapping()))
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(s)
			target, err := mapping.NewTarget(server.URL, "", 0, file)
			if err != nil {
				t.Fatal(err)
			}
			s.onHand = 9
			got := target.Deduct(t.Context(), loadtest.Request{SKU: "shirt", Quantity: 1, RequestID: "r"})
			if !later && row.decided > 3 { // it was sold before
				row.outcome, row.decided, row.says = loadtest.Accepted, 3, "sold, and then: "+row.says
			}
			if got.Outcome != row.outcome || got.Purchase.Decided != row.decided || !strings.Contains(got.Error, row.says) {
				t.Errorf("%s %s, later %v: %+v %+v", row.trouble, row.step, later, got, got.Purchase)
			}
			target.Close()
			server.Close()
		}
	}
	target := canned(t, strings.Replace(stepMapping, "/carts, save", "'/carts/{{held}}', save", 1), nil)
	got := target.Deduct(t.Context(), loadtest.Request{SKU: "shirt", Quantity: 1, RequestID: "r"})
	if want := `{{held}} is saved when the stock is set`; got.Outcome != loadtest.Failed ||
		!strings.Contains(got.Error, want) {
		t.Errorf("%+v; want %s", got, want)
	}
}
