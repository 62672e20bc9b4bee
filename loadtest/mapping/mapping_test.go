package mapping_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

const least = `
read: {path: "/items/{{sku}}", quantity: stock}
deduct: {path: /buy, accepted: {status: 200}}
`

func TestParseMapping(t *testing.T) {
	for _, row := range []struct {
		name, text string
		want       []string // an error each, in this order
	}{
		{"least", least, nil},
		{
			"JSON",
			`{"read":{"path":"/a","quantity":"n"},"deduct":{"path":"/b?sku={{ sku }}",` +
				`"accepted":{"status":[200,"201"],"field":"code","equals":0}}}`,
			nil,
		},
		{
			"an alias",
			"read: &r {path: /a, quantity: n}\nset: {path: /s, status: 2xx}\ndeduct: {path: /d, accepted: &ok " +
				"{status: 2xx}, busy: {status: 503}}\n",
			nil,
		},
		{"told apart by a field", `
read: {path: /a, quantity: .}
deduct:
  path: /d
  accepted: {status: 200, field: code, equals: 0}
  sold_out: {status: 200, field: code, equals: [1, 2]}`, nil},
		{"empty", "", []string{"is empty; it must have read and deduct"}},
		{"no table", "- a", []string{"line 1: must be a table"}},
		{
			"a table that is used twice", "x: &x {status: 200}\n" + strings.Replace(least, "{status: 200}",
				"{<<: *x}", 1),
			[]string{"line 1: x: is no key of the file"},
		},
		{"a table that contains itself", "read: &r {path: *r, quantity: n}\ndeduct: {<<: *r}", []string{
			"line 1: deduct.path: must be text", "line 1: deduct.quantity: is no key of deduct",
			"line 1: read.path: must be text", "line 2: deduct.accepted: is missing",
		}},
		{
			"numbers in place of tables", "set: 1\nread: 2\ndeduct: {path: /d, accepted: 3}\norders: 4\nheaders: 5",
			[]string{
				"line 1: set: must be a table", "line 2: read: must be a table",
				"line 3: deduct.accepted: must be a table", "line 4: orders: must be a table",
				"line 5: headers: must be a table",
			},
		},
		{"no YAML", "a: [", []string{"yaml: line 1"}},
		{"no quotes", "read: {path: /a/{{sku}}, quantity: n}", []string{"text with {{ }} needs quotes inside { }"}},
		{"all at once", `
read:
  path: items
  quantity: a..b
  methot: GET
deduct:
  path: /buy/{{skus}}
  method: FETCH
  body: '{"n": {{quantity}'
  accepted: {status: 99}
  busy: {status: 200, field: x}
order: {}
`, []string{
			`line 3: read.path: "items" must be a path from the address on`,
			`line 4: read.quantity: "a..b" is no place in JSON`,
			"line 5: read.methot: is no key of read; there is auth, body, headers, less, method, path, quantity, " +
				"status",
			"line 7: deduct.path: {{skus}} is not known here; there is {{sku}}, {{quantity}}, {{request_id}}, " +
				"{{token}}",
			`line 8: deduct.method: "FETCH" is not allowed; there is GET, POST, PUT, PATCH, DELETE`,
			"line 9: deduct.body: {{ without }}",
			`line 10: deduct.accepted.status: "99" is no HTTP status; there is 200 to 599`,
			"line 11: deduct.busy: must have field and equals together",
			"line 12: order: is no key of the file; there is auth, busy, deduct, headers, ids, late, name, " +
				"orders, read, set",
		}},
		{"not to be told apart", `
read: {path: /a, quantity: n}
deduct:
  path: /d
  accepted: {status: 2xx}
  sold_out: {status: [409, 200], field: code, equals: 1}
  busy: {field: code, equals: [1, 2]}
`, []string{
			"line 6: deduct.sold_out: takes status 200, as accepted does: give each a field, and other values in " +
				"equals",
			"line 7: deduct.busy: takes status 200, as accepted does",
			"line 7: deduct.busy: takes status 409, as sold_out does",
		}},
		{
			"a path with a fragment", strings.Replace(least, "path: /buy", "path: '/buy#{{sku}}'", 1),
			[]string{`"/buy#{{sku}}" must be a path from the address on`},
		},
		{
			"a path that is no URL", strings.Replace(least, "path: /buy", "path: '/buy/%zz'", 1),
			[]string{`"/buy/%zz" must be a path from the address on`},
		},
		{
			"a body that is no JSON", strings.Replace(least, "path: /buy", `path: /buy, body: '{"sku": {{sku}}}'`, 1),
			[]string{"line 3: deduct.body: is not JSON once it is filled in"},
		},
		{
			"a form",
			"headers: {content-type: " +
				"application/x-www-form-urlencoded}" + strings.Replace(least, "path: /buy",
				`path: /buy, body: 'sku={{sku}}'`, 1),
			nil,
		},
		{"bad headers", "headers: {a b: c, X-Y: \"d\\ne\", Z: '{{sku}}'}" + least, []string{
			"line 1: headers.X-Y: cannot be sent", "line 1: headers.Z: {{sku}} is not known here; there is " +
				"{{token}}", "line 1: headers.a b: is no name",
		}},
		{
			"orders without an id in the reply", least + "orders: {path: /o, list: ., order_id: id, quantity: n}",
			[]string{"line 4: deduct.order_id: is missing"},
		},
		{
			"no cursor", strings.Replace(least, "path: /buy", "path: /buy, order_id: id", 1) + "orders: {path: " +
				"/o, list: ., order_id: id, quantity: n, next: next}",
			[]string{"line 4: orders.next: needs {{cursor}}"},
		},
		{
			"no next", strings.Replace(least, "path: /buy", "path: /buy, order_id: id", 1) +
				`orders: {path: "/o?c={{cursor}}", list: ., order_id: id, quantity: n}`,
			[]string{"line 4: orders.next: is missing"},
		},
		{"twice", least + "name: a\nname: b", []string{"line 5: name: is there twice"}},
		{"empty values", "name: ''\n" + strings.Replace(least, "status: 200", "status: []", 1), []string{
			"line 1: name: is empty", "line 4: deduct.accepted.status: is an empty list",
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, err := mapping.Parse([]byte(row.text))
			if len(row.want) == 0 {
				if err != nil || m.Name() != "mapped" {
					t.Fatal(m, err)
				}
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if !errors.As(err, new(*mapping.Error)) || len(got) < len(row.want) {
				t.Fatalf("got\n%v", err)
			}
			for i, want := range row.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("error %d is\n  %s\nwant\n  %s", i+1, got[i], want)
				}
			}
			if len(got) > len(row.want) && row.name != "no YAML" {
				t.Errorf("too many errors:\n%v", err)
			}
		})
	}
}

// Every published mapping can be read: the examples, and those that the documents quote.
func TestShownMappings(t *testing.T) {
	files, err := filepath.Glob("../examples/*/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	t.Setenv("SHOP_KEY", "k")
	shown := make(map[string]string)
	for _, name := range append(files, "../README.md", "../README.zh-CN.md", "../../docs/judge.md",
		"../../docs/judge.zh-CN.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Ext(name) == ".yaml" {
			shown[name] = string(text)
			continue
		}
		blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		for i, block := range blocks {
			shown[fmt.Sprintf("%s, block %d", name, i+1)] = block[1]
		}
		if len(blocks) == 0 {
			t.Errorf("%s shows no mapping", name)
		}
	}
	for name, text := range shown {
		if _, err := mapping.Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No file makes the parser panic, and every accepted file makes requests.
func FuzzParseMapping(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte(linesMapping))
	f.Add([]byte(stepMapping))
	f.Add([]byte(strings.Replace(stepMapping, stepDecides, stepSells, 1)))
	f.Add([]byte("late: 2s\nbusy: {status: 429, wait: 1s}\nauth: {basic: {user: a, password: b}}" +
		strings.Replace(least, "path: /buy", `path: /buy, body: {a: ["{{quantity+quantity:number}}", 1]}`, 1)))
	for _, name := range []string{"mapping.yaml", "mapping-least.yaml"} {
		text, err := os.ReadFile(filepath.Join("../examples/shop", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := mapping.Parse(text)
		if err != nil {
			return
		}
		// Port 0 refuses at once, so that only the making of requests is tested.
		target, err := mapping.NewTarget("http://127.0.0.1:0", "to ken", 1, m)
		if err != nil {
			t.Fatal(err)
		}
		defer target.Close()
		for _, sku := range []string{"x", "a/b?c#d%\"\\ é\n"} {
			_, err := target.Stock(t.Context(), "", sku)
			if err == nil || !strings.Contains(err.Error(), "cannot be reached") && !unready(err.Error()) {
				t.Errorf("Stock: %v", err)
			}
			got := target.Deduct(t.Context(), loadtest.Request{SKU: sku, Quantity: 1, RequestID: "r"})
			if got.Outcome != loadtest.Failed || strings.Contains(got.Error, "invalid") ||
				!strings.Contains(got.Error, "not sent: ") && !unready(got.Error) {
				t.Errorf("Deduct: %+v", got)
			}
		}
	})
}

// unready reports whether a request cannot be made because of its values: a sum of a SKU, or what was never saved.
func unready(err string) bool {
	return strings.Contains(err, "no whole number") || strings.Contains(err, "is saved when the stock is set") ||
		strings.Contains(err, "has a control character")
}
