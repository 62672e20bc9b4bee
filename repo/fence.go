package repo

import (
	"fmt"

	"example.com/stock/service"
)

// CheckFence returns an error if fence is smaller than seen, the largest fence of the writes so far. A fence of 0
// means none, and is not checked.
func CheckFence(fence, seen uint64) error {
	if fence != 0 && fence < seen {
		return staleFence(seen)
	}
	return nil
}

// staleFence returns the error for a fence that is smaller than seen.
func staleFence(seen any) error {
	return fmt.Errorf("%w (it had fence %v)", service.ErrStaleFence, seen)
}
