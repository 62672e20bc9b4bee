package repo

import (
	"fmt"

	"example.com/stock/service"
)

// CheckFence refuses a holder with a smaller fence than a later one has shown. A fence of 0 stands for none.
func CheckFence(fence, seen uint64) error {
	if fence != 0 && fence < seen {
		return StaleFence(seen)
	}
	return nil
}

// StaleFence returns the error for a fence that is smaller than the one seen.
func StaleFence(seen any) error {
	return fmt.Errorf("%w (it had fence %v)", service.ErrStaleFence, seen)
}
