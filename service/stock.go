// Package service is the domain: stock is sold by read, think, write, and every way to do that is a Seller.
//
// The package declares what it needs from storage (Store and its companions). It knows no HTTP, no SQL and no Redis.
//
// Time. A request has three contexts. The first is the caller's: it ends when the client disconnects or a server that
// the request needs goes down. The second is the wait, which comes from the first and also ends when the time to wait
// is over: it bounds the queue for a lock, for a batch, and in front of the store. The third is the work, which ends
// with neither, because the outcome of a write that was cut off would be unknown: it is bounded by Config.Work. Nothing
// else carries time. A Seller gets the work, and the work carries the wait (see [WithWait]), because all three queues
// lie below a Seller and a call of a store has one ctx. lock.Options.Wait is set from it where lock.Do is called.
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

// Stock is the stock of one SKU in a store.
type Stock struct {
	SKU      SKU
	Quantity int64  // units left
	Initial  int64  // units when the stock was last set
	Sold     int64  // units sold since then, counted from the orders: Initial = Quantity + Sold, or updates were lost
	Version  uint64 // grows by one with every write: two orders that read the same version collided
	Epoch    uint64 // grows by one when the stock is set: orders of an earlier epoch do not count
	Fence    uint64 // the largest fence that a write of this epoch has carried
	Guard    string // the only strategy that may write in this epoch: the first that did; "" before the first write
}
