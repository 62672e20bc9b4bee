package order

import (
	"cmp"
	"slices"

	"example.com/stock/service"
)

// merge returns the lines sorted by SKU, with one line for each SKU. Without merging, two lines of 5 units could both
// pass the check when 5 units are left. Without sorting, two carts could lock their SKUs in different orders. The error
// is an InvalidError.
func merge(lines []Line) ([]Line, error) {
	if len(lines) < 1 || len(lines) > MaxLines {
		return nil, service.Invalid("lines", "from-to", "least", 1, "most", MaxLines)
	}
	merged := slices.SortedFunc(slices.Values(lines), func(a, b Line) int { return cmp.Compare(a.SKU, b.SKU) })
	kept := merged[:0]
	for _, l := range merged {
		if l.Quantity < 1 || l.Quantity > MaxQuantity {
			return nil, service.Invalid("quantity", "whole", "least", 1, "most", MaxQuantity)
		}
		if n := len(kept); n > 0 && kept[n-1].SKU == l.SKU {
			kept[n-1].Quantity += l.Quantity
			continue
		}
		kept = append(kept, l)
	}
	for _, l := range kept {
		if l.Quantity > MaxQuantity {
			return nil, service.Invalid("lines", "all-in-all", "most", MaxQuantity, "sku", l.SKU)
		}
	}
	return kept, nil
}

func skusOf(lines []Line) []service.SKU {
	skus := make([]service.SKU, len(lines))
	for i, l := range lines {
		skus[i] = l.SKU
	}
	return skus
}
