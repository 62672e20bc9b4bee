package mapping_test

import (
	"slices"
	"strings"
	"testing"

	"example.com/stock/loadtest/mapping"
)

// SKUs are sold in the order of the file.
func TestIDs(t *testing.T) {
	t.Parallel()
	file, err := mapping.Parse([]byte("ids: {shirt: {item: '7', at: main}, hat: {at: main, item: '8'}}" + least))
	if err != nil || !slices.Equal(file.SKUs(), []string{"shirt", "hat"}) {
		t.Error(file, err)
	}
}

func TestWrongIDs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ ids, want string }{
		{"{}", "line 1: ids: has no SKU"},
		{"{a: 1}", "line 1: ids.a: must be a table"},
		{"{a: {x: 1}, b: {y: 2}}", "line 1: ids.b: has other names than a"},
		{"{a: {sku: 1}}", "line 1: ids.a.sku: cannot be the name of a variable"},
		{"{a: {x y: 1}}", "line 1: ids.a.x y: cannot be the name of a variable"},
		{"{a: {x+y: 1}}", "line 1: ids.a.x+y: cannot be the name of a variable"},
		{"{a: {x: }}", "line 1: ids.a.x: is empty"},
		{"{a: {x: [1]}}", "line 1: ids.a.x: must be text"},
	} {
		_, err := mapping.Parse([]byte("ids: " + row.ids + least))
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want %s", row.ids, err, row.want)
		}
	}
}
