// Package service is the domain: stock is sold by read, think, write, and every way to do that is a Seller.
//
// The package declares what it needs from storage (Store and its companions). It depends on no HTTP, SQL or Redis.
//
// Time. A request has three contexts. The first is the caller's: it ends when the client disconnects or a server that
// the request needs goes down. The second is the wait. It derives from the first, and also ends when the request has
// waited long enough: it limits the queues for a lock, for a batch, and in front of the store. The third is the work.
// It ends with neither of them, because the outcome of an interrupted write would be unknown; it is limited by
// Config.Work. Nothing else limits time. A Seller gets the work, which carries the wait as a value (see [WithWait]),
// because all three queues lie below a Seller and a call of a store has only one ctx. lock.Options.Wait is set from
// it where lock.Do is called.
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
