package order

import "iter"

// MovementsAfter returns the movements of a SKU after a number, to the last one, which read returns in pages of limit.
// It ends with the first error.
func MovementsAfter(
	after uint64, limit int, read func(after uint64) ([]Movement, error),
) iter.Seq2[Movement, error] {
	return func(yield func(Movement, error) bool) {
		for {
			page, err := read(after)
			if err != nil {
				yield(Movement{}, err)
				return
			}
			for _, m := range page {
				if after = m.Number; !yield(m, nil) {
					return
				}
			}
			if len(page) < limit {
				return
			}
		}
	}
}
