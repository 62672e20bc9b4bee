package mapping_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.com/stock/loadtest/mapping"
)

// mistakes returns line and key of each mistake that a file has.
func mistakes(t *testing.T, text string) string {
	t.Helper()
	_, err := mapping.Parse([]byte(text))
	several, _ := err.(interface{ Unwrap() []error })
	if several == nil {
		return fmt.Sprint(err)
	}
	var list []string
	for _, err := range several.Unwrap() {
		mistake := new(mapping.Error)
		if !errors.As(err, &mistake) || mistake.Reason == "" || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
		list = append(list, fmt.Sprintf("%d %s", mistake.Line, mistake.Field))
	}
	return strings.Join(list, ", ")
}

// The files of which one part is wrong.
func wholeFile(text string) string { return text }
func atTheTop(text string) string  { return text + least }
func ofDeduct(keys string) string {
	return strings.Replace(least, "path: /buy", "path: /buy, "+keys, 1)
}
func thePath(path string) string  { return strings.Replace(least, "/buy", path, 1) }
func accepted(rule string) string { return strings.Replace(least, "{status: 200}", rule, 1) }

func ofOrders(keys string) string {
	return ofDeduct("order_id: id") + "orders: {path: /o, list: ., order_id: id, quantity: n, " + keys + "}"
}

// inSteps and inPages take what is replaced, or the query, and then what is wrong.
func inSteps(change string) string {
	old, by, _ := strings.Cut(change, " -> ")
	return strings.Replace(stepMapping, old, by, 1)
}

func inPages(change string) string {
	query, next, _ := strings.Cut(change, " -> ")
	return strings.Replace(ofOrders("next: "+next), "path: /o,", "path: '/o?"+query+"',", 1)
}

// Whatever is wrong in a file is told with its line and key, all at once.
func TestWrongFiles(t *testing.T) {
	t.Setenv("STOCK_TEST_LINES", "a\nb")
	t.Setenv("STOCK_TEST_EMPTY", "")
	for _, row := range []struct {
		file       func(part string) string
		part, want string
	}{
		{wholeFile, "- a", "1 "},
		{
			wholeFile, "set: 1\nread: 2\ndeduct: {path: /d, accepted: 3}\norders: 4\nheaders: 5",
			"1 set, 2 read, 3 deduct.accepted, 4 orders, 5 headers",
		},
		{
			wholeFile, "read: &r {path: *r, quantity: n}\ndeduct: {<<: *r}", // it contains itself
			"1 deduct.path, 1 deduct.quantity, 1 read.path, 2 deduct.accepted",
		},
		{
			wholeFile, "read:\n  path: items\n  quantity: a..b\n  methot: GET\ndeduct:\n  path: /buy/{{skus}}\n" +
				"  method: FETCH\n  body: '{\"n\": {{quantity}'\n  accepted: {status: 99}\n" +
				"  busy: {status: 200, field: x}\norder: {}",
			"2 read.path, 3 read.quantity, 4 read.methot, 6 deduct.path, 7 deduct.method, 8 deduct.body, " +
				"9 deduct.accepted.status, 10 deduct.busy, 11 order",
		},

		{atTheTop, "x: &x {status: 200}", "1 x"},
		{atTheTop, "name: ''", "1 name"},
		{atTheTop, "name: a\nname: b", "2 name"},
		{atTheTop, "late: 11m", "1 late"},
		{atTheTop, "late: 3", "1 late"},
		{atTheTop, "busy: {status: 2xx}", "3 deduct.busy"},
		{atTheTop, `headers: {a b: c, X-Y: "d\ne", Z: '{{sku}}'}`, "1 headers.X-Y, 1 headers.Z, 1 headers.a b"},
		{atTheTop, "headers: {A: '{{env.STOCK_TEST_LINES}}'}", "1 headers.A"},
		{atTheTop, "auth: some", "1 auth"},
		{atTheTop, "auth: {}", "1 auth"},
		{atTheTop, "auth: [a]", "1 auth"},
		{atTheTop, "auth: {berer: a}", "1 auth.berer"},
		{atTheTop, "auth: {bearer: a, basic: {user: a, password: b}}", "1 auth"},
		{atTheTop, "auth: {basic: {user: a}}", "1 auth.basic.password"},
		{atTheTop, "auth: {basic: {user: 'a:b', password: c}}", "1 auth.basic.user"},
		{atTheTop, "auth: none\nheaders: {authorization: a}", "1 auth"},
		{atTheTop, "auth: {bearer: '{{env.STOCK_TEST_EMPTY}}'}", "1 auth.bearer"},
		{atTheTop, "auth: {bearer: '{{env.STOCK_TEST_LINES}}'}", "1 auth.bearer"},
		{atTheTop, "ids: {}", "1 ids"},
		{atTheTop, "ids: {a: 1}", "1 ids, 1 ids.a"},
		{atTheTop, "ids: {a: {x: 1}, b: {y: 2}}", "1 ids.b"},
		{atTheTop, "ids: {a: {sku: 1}}", "1 ids.a.sku"},
		{atTheTop, "ids: {a: {x y: 1}}", "1 ids.a.x y"},
		{atTheTop, "ids: {a: {x+y: 1}}", "1 ids.a.x+y"},
		{atTheTop, "ids: {a: {x: }}", "1 ids.a.x"},
		{atTheTop, "ids: {a: {x: [1]}}", "1 ids.a.x"},
		{atTheTop, "set: {steps: []}", "1 set.steps"},
		{atTheTop, "set: {steps: {path: /a}}", "1 set.steps"},
		{atTheTop, "set: {steps: [{path: /a, sells: true}]}", "1 set.steps.1.sells"},

		{ofDeduct, "busy: {status: 429, wait: 2m}", "3 deduct.busy.wait"},
		{ofDeduct, "busy: {status: 429, wait: 'header:'}", "3 deduct.busy.wait"},
		{ofDeduct, "busy: {status: 200}", "3 deduct.busy"},
		{ofDeduct, "sold_out: {status: 429, wait: 2s}", "3 deduct.sold_out.wait"},
		{ofDeduct, "sold_out: {status: [409, 200], field: code, equals: 1}", "3 deduct.sold_out"},
		{ofDeduct, "pending: {status: 202}", "3 deduct.pending"},
		{ofDeduct, "repeat: {until: {status: 200}}", "3 deduct.repeat"},
		{ofDeduct, "body: {a: 'b{{quantity:number}}'}", "3 deduct.body"},
		{ofDeduct, "body: '{{quantity:number}}'", "3 deduct.body"},
		{ofDeduct, `body: '{"sku": {{sku}}}'`, "3 deduct.body"},
		{ofDeduct, "body: {a: '{{held}}'}", "3 deduct.body"},
		{ofDeduct, "body: {a: '{{sku+held}}'}", "3 deduct.body"},
		{ofDeduct, "body: {a: 1, a: 2}", "3 deduct.body.a"},
		{ofDeduct, "body: {[a]: 1}", "3 deduct.body"},
		{ofDeduct, "body: &b [*b]", "3 deduct.body"},
		{ofDeduct, "headers: {Content-Type: text/plain}, body: {a: 1}", "3 deduct.body"},
		{thePath, "'/buy#{{sku}}'", "3 deduct.path"},
		{thePath, "'/buy/%zz'", "3 deduct.path"},

		{accepted, "{field: 'a[b=c', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a[b].c', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a[b=c]d', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a.[b=c]', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a[b=c].', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a[b={{c}}]', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'a[b={{env.STOCK_TEST_LINES}}]', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: 'header:', equals: 1}", "3 deduct.accepted.field"},
		{accepted, "{field: a, equals: 1, not: 2}", "3 deduct.accepted"},
		{accepted, "{field: a}", "3 deduct.accepted"},
		{accepted, "{contains: a}", "3 deduct.accepted"},
		{accepted, "{field: a, contains: ''}", "3 deduct.accepted.contains"},
		{accepted, "{field: a, exists: maybe}", "3 deduct.accepted.exists"},
		{accepted, "{field: a, exists: [true, false]}", "3 deduct.accepted.exists"},
		{accepted, "{status: []}", "3 deduct.accepted.status"},
		{accepted, "[]", "3 deduct.accepted"},
		{accepted, "[{status: 200}, {}]", "3 deduct.accepted"},
		{accepted, "[{status: 200}, {stat: 1}]", "3 deduct.accepted.stat"},

		{wholeFile, least + "orders: {path: /o, list: ., order_id: id, quantity: n}", "4 deduct.order_id"},
		{ofOrders, "where: {status: 200}", "4 orders.where"},
		{ofOrders, "where: {field: header:X, equals: 1}", "4 orders.where"},
		{ofOrders, "request_id: header:X", "4 orders.request_id"},
		{inPages, " -> {}", "4 orders.next"},
		{inPages, "p={{page}} -> {pages: a, total: b}", "4 orders.next"},
		{inPages, " -> {link: prev}", "4 orders.next.link"},
		{inPages, " -> {total: a}", "4 orders.next"},
		{inPages, " -> {cursor: a}", "4 orders.next"},
		{inPages, "p={{page}} -> {link: next}", "4 orders.next"},
		{inPages, "p={{cursor}}&q={{page}} -> {total: a}", "4 orders.next"},
		{inPages, "p={{page}} -> {total: a, more: b}", "4 orders.next.more"},
		{inPages, "p={{page}} -> {total: 'a['}", "4 orders.next.total"},

		{inSteps, "deduct:\n -> deduct:\n  path: /buy\n", "12 deduct.path"},
		{inSteps, "deduct:\n -> deduct:\n  order_id: id\n", "12 deduct.order_id"},
		{inSteps, "name: line -> name: cart", "14 deduct.steps.cart.name"},
		{inSteps, "sells: true,  -> ", "13 deduct.steps, 24 deduct.steps.cart.order_id"},
		{inSteps, "name: wait -> sells: true, name: wait", "13 deduct.steps, 24 deduct.steps.cart.order_id"},
		{
			inSteps, "sells: true -> sells: maybe",
			"13 deduct.steps, 18 deduct.steps.checkout.sells, 24 deduct.steps.cart.order_id",
		},
		{inSteps, "sells: true -> sells: true, repeat: {until: {status: 200}}", "18 deduct.steps.checkout.repeat"},
		{inSteps, stepDecides + ",  -> ", "18 deduct.steps.checkout.accepted"},
		{inSteps, "{name: wait, -> {name: wait, pending: {status: 202},", "20 deduct.steps.wait.pending"},
		{inSteps, stepMapping[strings.Index(stepMapping, "    - {name: wait"):strings.Index(stepMapping, "orders:\n")] +
			" -> ", "18 deduct.steps.checkout.pending"},
		{inSteps, "name: line -> name: line\n      read: left", "14 deduct.steps.line.read"},
		{inSteps, "order_id: id, save -> save", "24 deduct.steps.wait.order_id"},
		{
			inSteps, "save: {cart: -> save: {sku:",
			"13 deduct.steps.cart.save.sku, 15 deduct.steps.line.path, 18 deduct.steps.checkout.path",
		},
		{
			inSteps, "save: {cart: -> save: {variant:",
			"13 deduct.steps.cart.save.variant, 15 deduct.steps.line.path, 18 deduct.steps.checkout.path",
		},
		{inSteps, "save: {order: -> save: {cart:", "19 deduct.steps.checkout.save.cart, 20 deduct.steps.wait.path"},
		{inSteps, "save: {order: -> save: {held:", "19 deduct.steps.checkout.save.held, 20 deduct.steps.wait.path"},
		{inSteps, "/carts, save -> '/carts/{{order}}', save", "13 deduct.steps.cart.path"},
		{inSteps, `read: {path: "/stock -> read: {path: "/{{cart}}`, "10 read.path"},
		{inSteps, "repeat: {while -> repeat: {until: {status: 200}, while", "21 deduct.steps.wait.repeat"},
		{inSteps, "while: {field: state, equals: pending},  -> ", "21 deduct.steps.wait.repeat"},
		{inSteps, "every: 10ms -> every: 9ms", "21 deduct.steps.wait.repeat.every"},
		{inSteps, "for: 2s -> for: 11m", "21 deduct.steps.wait.repeat.for"},
		{inSteps, "every: 10ms -> each: 10ms", "21 deduct.steps.wait.repeat.each"},
		{
			inSteps, stepDecides + ", order_id: id, save: {order: id}}\n    - {name: wait, -> " +
				"accepted: {status: 202}, save: {order: id}}\n    - {name: wait, order_id: id,",
			"20 deduct.steps.wait.order_id, 24 deduct.steps.checkout.order_id",
		},
	} {
		if got := mistakes(t, row.file(row.part)); got != row.want {
			t.Errorf("%s: %s, want %s", row.part, got, row.want)
		}
	}
}

// Of a text that is no YAML nothing else is told. That of an unknown key has the keys that there are.
func TestWhatIsToldOfAMistake(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "is empty; it must have read and deduct",
		"a: [":                                  "yaml: line 1",
		"read: {path: /a/{{sku}}, quantity: n}": "text with {{ }} needs quotes inside { }",
		ofDeduct("order: id"): "line 3: deduct.order: is no key of deduct; there is accepted, auth, body, busy, " +
			"headers, instance, method, order_id,",
	} {
		if _, err := mapping.Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
}
