package service

import (
	"fmt"
	"slices"
)

// AnyTag in a Condition matches every stock that exists.
const AnyTag = "*"

// Tag returns the tag of the stock, such as "1790000000000000-17-5". It consists of epoch, version and quantity, so
// every write changes it. The quantity distinguishes the states of a server and of a replica that has missed writes and
// has made as many others after a fail-over.
func (s Stock) Tag() string {
	return fmt.Sprintf("%d-%d-%d", s.Epoch, s.Version, s.Quantity)
}

// A Condition on the current stock makes a Set conditional. The zero Condition always holds.
type Condition struct {
	Match     []string // the stock must have one of these tags; nil: any; empty: the condition never holds
	NoneMatch []string // the stock must have none of these tags; nil: any
}

// None reports whether c has no condition, so that it holds for every stock.
func (c Condition) None() bool { return c.Match == nil && c.NoneMatch == nil }

// Holds reports whether c holds for a stock with this tag. The tag is "" if the stock does not exist.
func (c Condition) Holds(tag string) bool {
	has := func(tags []string) bool {
		return tag != "" && (slices.Contains(tags, AnyTag) || slices.Contains(tags, tag))
	}
	return (c.Match == nil || has(c.Match)) && !has(c.NoneMatch)
}
