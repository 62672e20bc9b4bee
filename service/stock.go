// Package service is the domain: stock is sold by read, think, write, and every way to do that is a Seller.
//
// The package declares what it needs from storage (Store and its companions). It depends on no HTTP, SQL or Redis.
//
// Time. A request has the ctx of its caller, which ends when the client disconnects, and two that are made of it. One
// is the work. It does not end with the caller's, because the outcome of an interrupted write would be unknown; it is
// limited by Config.Work. The other is the wait, which limits the queues for a lock, for a batch, and in front of the
// store. It ends with the caller's, when a server that the request needs goes down, and when the request has waited
// long enough. Nothing else limits time. A Seller gets the work, which carries a [Wait] as a value, because all three
// queues lie below a Seller and a call of a store has only one ctx. A function that waits makes the ctx of the wait
// with [Waiting]; a sale without a lock that finds no queue makes none.
package service

import "time"

// MaxQuantity is the most units of one deduction, MaxStock the most units in stock, and MaxWait the longest wait of a
// request.
const (
	MaxQuantity = 1_000_000
	MaxStock    = 1_000_000_000
	MaxWait     = 60 * time.Second
)

// MaxPage is the most orders that one call returns.
const MaxPage = 1000

// Stock is the stock of one SKU in a store.
//
// An epoch begins at the time of the store's server in µs, or at the number after the last epoch if the clock is
// behind. So it does not come again, even after a loss of data, unless the clock was set back to the same microsecond.
// Until the year 2255 it is below 2^53, so every reader of JSON can hold it.
type Stock struct {
	SKU      SKU
	Quantity int64  // units left
	Initial  int64  // units when the stock was last set
	Sold     int64  // units sold since then, counted from the orders: Initial = Quantity + Sold, or updates were lost
	Version  uint64 // grows by one with every write: two orders that read the same version collided
	Epoch    uint64 // another when the stock is set: orders of an earlier epoch do not count
	Fence    uint64 // the largest fence that a write of this epoch has carried
	Guard    string // the only strategy that may write in this epoch: the first that did; "" before the first write
}
