package mapping_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

const least = `
read: {path: "/items/{{sku}}", quantity: stock}
deduct: {path: /buy, accepted: {status: 200}}
`

// What is right may be written in several ways.
func TestParseMapping(t *testing.T) {
	for name, text := range map[string]string{
		"least":             least,
		"a byte order mark": "\ufeff" + least,
		"JSON": `{"read":{"path":"/a","quantity":"n"},"deduct":{"path":"/b?sku={{ sku }}",` +
			`"accepted":{"status":[200,"201"],"field":"code","equals":0}}}`,
		"an alias": "read: &r {path: /a, quantity: n}\nset: {path: /s, status: 2xx}\n" +
			"deduct: {path: /d, accepted: &ok {status: 2xx}, busy: {status: 503}}\n",
		"told apart by a field": accepted("{status: 200, field: code, equals: 0}, " +
			"sold_out: {status: 200, field: code, equals: [1, 2]}"),
		"a form": "headers: {content-type: application/x-www-form-urlencoded}" + ofDeduct("body: 'sku={{sku}}'"),
	} {
		if m, err := mapping.Parse([]byte(text)); err != nil || m.Name() != "mapped" {
			t.Errorf("%s: %v %v", name, m, err)
		}
	}
	file, err := mapping.Parse([]byte("late: 1500ms\nids: {shirt: {item: '7', at: main}, hat: {at: main, item: '8'}}" +
		least))
	if err != nil || file.Late() != 1500*time.Millisecond || !slices.Equal(file.SKUs(), []string{"shirt", "hat"}) {
		t.Error(file, err)
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
	f.Add([]byte(ofOrders("where: {field: a, not: [b, c]}, next: {link: next}")))
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
