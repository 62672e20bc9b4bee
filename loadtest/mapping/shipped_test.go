package mapping_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// The shops of the shipped mappings, as far as a mapping goes there, answer as their public documents say: the same
// refusals, ids, pages and keys. They serve fewer entries a page than they are asked for, as shops may.
const perPage = 4

// Every shipped mapping finds that its shop, which has 10 units for 15 requests, holds.
func TestShippedMappings(t *testing.T) {
	for name, shop := range map[string]struct {
		environment []string
		open        func(*shelf) http.Handler
	}{
		"medusa":      {[]string{"MEDUSA_API_KEY=sk_1", "MEDUSA_PUBLISHABLE_KEY=pk_1"}, medusa},
		"woocommerce": {[]string{"WOO_KEY=ck_1", "WOO_SECRET=cs_1"}, woocommerce},
		"shopify":     {[]string{"SHOPIFY_TOKEN=shpat_1"}, shopify},
		"saleor":      {[]string{"SALEOR_TOKEN=app-1", "SALEOR_CHANNEL=default-channel"}, saleor},
		"vendure":     {[]string{"VENDURE_API_KEY=key-1"}, vendure},
		"magento":     {[]string{"MAGENTO_TOKEN=token-1"}, magento},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pair := range shop.environment {
				key, value, _ := strings.Cut(pair, "=")
				t.Setenv(key, value)
			}
			text, err := mapping.Shipped(name)
			if err != nil {
				t.Fatal(err)
			}
			r := buy(t, shop.open(new(shelf)), string(text), "SHIRT-M", 15)
			n := outcomes(r)
			if r.Verdict.Finding != loadtest.Holds || n[loadtest.Accepted] != 10 || n[loadtest.SoldOut] != 5 {
				t.Errorf("%s: %v %v", r.Verdict.Finding, n, r.Verdict.Reasons)
			}
		})
	}
}

type object = map[string]any

// A call is one request to a shop, with its body in JSON.
type call struct {
	*http.Request
	http.ResponseWriter
	body any
}

// serve makes a handler of a function that answers calls.
func serve(answer func(*call)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, ResponseWriter: w}
		_ = json.NewDecoder(r.Body).Decode(&c.body)
		answer(c)
	})
}

func (c *call) say(status int, doc any) {
	c.ResponseWriter.Header().Set("Content-Type", "application/json")
	c.WriteHeader(status)
	_ = json.NewEncoder(c.ResponseWriter).Encode(doc)
}

// is reports whether the call is to that method and path.
func (c *call) is(method, path string) bool { return c.Method == method && c.URL.Path == path }

// operation reports whether the body is a GraphQL document that has that field.
func (c *call) operation(name string) bool { return strings.Contains(c.text("query"), name+"(") }

// at returns what is in the body at keys with dots, or nil.
func (c *call) at(path string) (value any) {
	value = c.body
	for key := range strings.SplitSeq(path, ".") {
		switch v := value.(type) {
		case object:
			value = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func (c *call) text(path string) string { return text(c.at(path)) }

func text(value any) string {
	s, _ := value.(string)
	return s
}

// units returns a number of the body. It is -1 if there is none: text in quotes is none.
func (c *call) units(path string) int64 {
	n, isNumber := c.at(path).(float64)
	if !isNumber {
		return -1
	}
	return int64(n)
}

// has reports whether the body has all these texts, each after its path.
func (c *call) has(pairs ...string) bool {
	for i := 0; i < len(pairs); i += 2 {
		if c.text(pairs[i]) != pairs[i+1] {
			return false
		}
	}
	return true
}

// offers reports whether a customer may put a unit in a cart.
func (s *shelf) offers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onHand > s.held
}

// page returns the orders from one on, as each shop shows them, and how many there are in all.
func (s *shelf) page(from int, show func(i int, o shelfOrder) object) (page []object, all int) {
	list := s.listed()
	page = []object{}
	for i := from; i < min(from+perPage, len(list)); i++ {
		page = append(page, show(i+1, list[i]))
	}
	return page, len(list)
}
