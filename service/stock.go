// Package service is the domain: stock is sold by read, think, write, and every way to do that is a Seller.
//
// It declares what it needs from storage (Store and its companions) and knows no HTTP, no SQL and no Redis.
package service

import "time"

// MaxQuantity is the most that one deduction may take, and the most that can be in stock is MaxStock. MaxWait is the
// longest that a request may wait.
const (
	MaxQuantity = 1_000_000
	MaxStock    = 1_000_000_000
	MaxWait     = 60 * time.Second
)

// MaxPage is the most orders that one call returns.
const MaxPage = 1000

// Stock is what a store knows of one SKU.
type Stock struct {
	SKU      SKU
	Quantity int64  // units left
	Initial  int64  // units there were when the stock was last set
	Sold     int64  // units sold since, counted from the orders: Initial = Quantity + Sold, or updates were lost
	Version  uint64 // grows by one with every write: two orders that read the same version collided
	Epoch    uint64 // grows by one every time that the stock is set: orders of an earlier epoch do not count
	Fence    uint64 // the largest fence that a write of this epoch has carried
	Guard    string // the strategy that wrote first in this epoch, and the only one that may; "" before the first write
}
