package rig

import (
	"testing"

	"example.com/stock/loadtest"
)

func TestTheSumOfTheBooks(t *testing.T) {
	whole := loadtest.Stock{Initial: 100, Quantity: 70, Sold: 30}
	for _, row := range []struct {
		name                     string
		stock                    loadtest.Stock
		orders, units, sure, cut int64
		good                     bool
	}{
		{"all was answered", whole, 30, 30, 30, 0, true},
		{"two were cut off and sold", whole, 30, 30, 28, 2, true},
		{"some of those cut off did not sell", whole, 30, 30, 29, 8, true},
		{"a unit is gone without an order", loadtest.Stock{Initial: 100, Quantity: 69, Sold: 30}, 30, 30, 30, 8, false},
		{"an order took no unit", whole, 31, 31, 30, 8, false},
		{"two orders for one unit", whole, 31, 30, 30, 8, false},
		{"an order for two units", whole, 29, 30, 29, 8, false},
		{"the row tells of more", loadtest.Stock{Initial: 100, Quantity: 70, Sold: 31}, 30, 30, 30, 8, false},
		{"a sale was answered and is not there", whole, 30, 30, 31, 8, false},
		{"more were sold than anybody asked for", whole, 30, 30, 27, 2, false},
	} {
		if err := balanced(row.stock, row.orders, row.units, row.sure, row.cut); (err == nil) != row.good {
			t.Errorf("%s: %v", row.name, err)
		}
	}
}
