package repo

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/gate"
	"example.com/stock/service"
)

// KeepOrders is how long the orders of an epoch that is over are kept: long enough to look into what happened, and then the room is free
// again. Redis counts from the end of the epoch. MySQL counts from each order, and looks when the stock is set again. The
// orders of the current epoch do not expire.
const KeepOrders = 24 * time.Hour

// Redis keeps stock and orders in Redis. Each SKU has three keys from when it is first set:
//
//   - stock:{<sku>}: a hash, with the segments of the stock if there are any.
//   - stock:{<sku>}:orders: a list, the number of the epoch and then its orders as they were written. When the stock is
//     set anew it becomes stock:{<sku>}:orders:<epoch>, and expires after KeepOrders.
//   - stock:{<sku>}:settled: a sorted set, the ids that [Redis.Settle] has declared absent, by when they may be
//     forgotten.
//
// The braces are a hash tag: all keys of a SKU are in one slot of a cluster, which is what lets a script use them
// together. Scripts name all keys that they use, so that a cluster that is moving the slot refuses a script (TRYAGAIN)
// while some of them are here and others there. It has done nothing then, and is asked again until ctx ends. Of keys
// that are not there it is not known where they are: that is why all three are made at once, and why Set waits for the
// end of the move.
//
// Every operation is one round trip, but for Set (two) and Settle; a script's first use after a restart of Redis takes
// one more. Scripts run one at a time, so nothing can come between the deduction and its order.
//
// The orders of the current epoch are never removed: whoever judges a run needs all of them. Each takes some 300 bytes,
// so a million takes 300 MB, and without maxmemory Redis takes what there is. To set the stock anew begins a new list.
//
// What is not promised: that an answered write survives. Redis answers before it has written to disk or to a replica,
// so a crash can lose the last second and a failover the last writes, and fences, versions and what was settled with
// them. It is never half of a sale that is lost. The option lock.replicas does not change that: it is about locks, and
// writes to the stock wait for no replica. A WAIT after each would be a second round trip, and could not be undone
// where it comes back short: that sale is written, and whether it survives is as open as before.
type Redis struct {
	client redis.UniversalClient
	gate   *gate.Gate // nil: none
	ear
}

// NewRedis makes a Redis. Give the client ContextTimeoutEnabled: without it go-redis notices a deadline only before it sends, and a silent
// server holds a caller for ReadTimeout (5 s). Its MaxRetries concern reads alone: scripts are sent once, see [once].
// A ctx that is cancelled, rather than timed out, is noticed before a request is sent; then the reply is awaited, since
// leaving would not undo the write but only make its outcome unknown.
func NewRedis(c redis.UniversalClient) *Redis { return &Redis{client: c} }

// Behind puts a bounded queue in front of every operation: what is refused there, or does not get its turn in half of
// its time, fails with lock.ErrOverloaded, and nothing was done. The other half is left for Redis. Let it admit no more
// than c has connections, and let nobody else use c: an operation that was let in then finds a connection. It returns
// r.
func (r *Redis) Behind(g *gate.Gate) *Redis {
	r.gate = g
	return r
}

// enter waits for a turn. key is that of the stock, for which those of the same SKU take turns with others.
func (r *Redis) enter(ctx context.Context, doing, key string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ended(ctx, doing)
	}
	return enter(ctx, r.gate, doing, key)
}

func stockKey(sku service.SKU) string   { return "stock:{" + string(sku) + "}" }
func ordersKey(sku service.SKU) string  { return stockKey(sku) + ":orders" }
func settledKey(sku service.SKU) string { return stockKey(sku) + ":settled" }

// formerKey is the list of the orders of an epoch that is over.
func formerKey(sku service.SKU, epoch uint64) string { return ordersKey(sku) + ":" + decimal(epoch) }

// Keys of scripts. The first is always the stock's, or begins with it.
func stockKeys(sku service.SKU) []string { return []string{stockKey(sku)} }
func pageKeys(sku service.SKU) []string  { return []string{stockKey(sku), ordersKey(sku)} }
func saleKeys(sku service.SKU) []string {
	return []string{stockKey(sku), ordersKey(sku), settledKey(sku)}
}

// Read is one round trip.
func (r *Redis) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "read stock"
	leave, err := r.enter(ctx, doing, stockKey(sku))
	if err != nil {
		return service.Stock{}, err
	}
	defer leave()
	values, err := r.client.HMGet(ctx, stockKey(sku), "quantity", "initial", "sold", "version", "epoch", "fence", "guard").Result()
	if err != nil {
		return service.Stock{}, redisFault(ctx, doing, stockKey(sku), err)
	}
	r.heard(nil)
	if values[4] == nil {
		return service.Stock{}, unknownSKU(sku)
	}
	f := fields{key: stockKey(sku), values: values}
	stock := f.stock(sku)
	return stock, f.err
}

// stock reads the fields in the order in which Read asks for them.
func (f *fields) stock(sku service.SKU) service.Stock {
	return service.Stock{
		SKU: sku, Quantity: f.integer(0), Initial: f.integer(1), Sold: f.integer(2),
		Version: f.natural(3), Epoch: f.natural(4), Fence: f.natural(5), Guard: f.text(6),
	}
}

// Write is one round trip.
func (r *Redis) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return r.write(ctx, o, "")
}

// Swap is one round trip.
func (r *Redis) Swap(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return r.write(ctx, o, decimal(o.Version))
}

// write writes o if the version is still that one; "" for any.
func (r *Redis) write(ctx context.Context, o service.Order, version string) error {
	_, err := r.run(ctx, "write order", writeScript, saleKeys(o.SKU),
		decimal(o.Epoch), o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(),
		o.Remaining, encodeOrder(o), segmentField(o.Segment, ""), version)
	return err
}

// Deduct is one round trip. An o.Epoch of 0 takes part in whatever epoch it is.
func (r *Redis) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	o.Remaining = 0
	if err := checkOrder(o); err != nil {
		return o, err
	}
	epoch := ""
	if o.Epoch != 0 {
		epoch = decimal(o.Epoch)
	}
	const doing = "deduct"
	reply, err := r.run(ctx, doing, deductScript, saleKeys(o.SKU),
		epoch, o.Strategy, decimal(o.Fence), o.Quantity, o.ID, writtenBy(o).UnixMilli(), encodeOrderTail(o))
	if err != nil {
		return o, err
	}
	f := fields{key: stockKey(o.SKU), values: reply}
	o.Read, o.Remaining, o.Version, o.Epoch = f.integer(1), f.integer(2), f.natural(3), f.natural(4)
	return o, f.err
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// The interfaces of package service that Redis has. It is no Transactor: MULTI cannot read and then decide.
var (
	_ service.Store     = (*Redis)(nil)
	_ service.Deductor  = (*Redis)(nil)
	_ service.Segmenter = (*Redis)(nil)
	_ service.Inventory = (*Redis)(nil)
)
