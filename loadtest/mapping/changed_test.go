package mapping_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/internal/golden"
	"example.com/stock/loadtest/mapping"
)

var update = flag.Bool("update", false, "rewrite testdata/changed.txt")

// whole has every key, each value in a line of its own.
const whole = `name: shop
headers:
  Authorization: Bearer {{token}}
set:
  method: PUT
  path: /items/{{sku}}
  body: '{"stock": {{quantity}}}'
  status: 2xx
read:
  method: GET
  path: /items/{{sku}}
  body: '{"of": "{{sku}}"}'
  status: 200
  quantity: stock
deduct:
  method: POST
  path: /items/{{sku}}/buy
  body: '{"count": {{quantity}}, "ref": "{{request_id}}"}'
  accepted:
    status: [200, 201]
    field: code
    equals: [0, ok]
  sold_out:
    status: 409
  busy:
    status: 503
    field: error.code
    equals: LOCKED
  order_id: id
  read: before
  remaining: after
  instance: node
orders:
  method: GET
  path: /items/{{sku}}/orders?from={{cursor}}
  status: 200
  list: items
  next: next
  order_id: id
  quantity: count
  request_id: ref
  read: before
  remaining: after
`

// One value of a mapping is another one, is missing or is there twice: the parser takes it, or says what it said when
// this was kept.
func TestChangedMappings(t *testing.T) {
	lines := strings.SplitAfter(whole, "\n")
	others := []string{
		"''", "{}", "[]", "[a, b]", "x", ".", "a..b", "-1", "0", "99", "600", "200", "[200, 409]", "2xx", "9xx", "null",
		"'{{quantity}}'", "'{{cursor}}'", "'{{nobody}}'", "'{{sku'", "'/a b'", "'//host/a'", "GET", "get",
	}
	var b strings.Builder
	for i, line := range lines {
		name, value, is := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !is {
			continue
		}
		var said []string
		values := make(map[string][]string) // by what was said
		try := func(how, with string) {
			changed := strings.Join(lines[:i], "") + with + strings.Join(lines[i+1:], "")
			text := "is a mapping"
			if _, err := mapping.Parse([]byte(changed)); err != nil {
				given := fmt.Sprintf("%q", strings.Trim(how, "'"))
				text = strings.NewReplacer("\n", " | ", given, `"…"`).Replace(err.Error())
			}
			if values[text] == nil {
				said = append(said, text)
			}
			values[text] = append(values[text], how)
		}
		try("missing", "")
		try("twice", line+line)
		for _, other := range others {
			if other != value {
				try(other, name+": "+other+"\n")
			}
		}
		fmt.Fprintf(&b, "line %d, %s\n", i+1, strings.TrimSpace(name))
		for _, text := range said {
			fmt.Fprintf(&b, "  %s\n    %s\n", text, strings.Join(values[text], "  "))
		}
	}
	golden.Compare(t, filepath.Join("testdata", "changed.txt"), b.String(), *update)
}
