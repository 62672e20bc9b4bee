package repo

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/order"
	"example.com/stock/service"
)

// A RedisLedger is the order.Ledger of a Redis, and what belongs to it. Its stock is that of the Redis, with four
// fields more: reserved, adjusted, number, per_customer. These keys are added:
//
//   - stock:{<sku>}:movements: a stream. The id of a movement is its number, so Redis itself refuses one that does not
//     follow.
//   - stock:{<sku>}:customers: a hash of what each customer has.
//   - stock:{<sku>}:delivered: a hash of how far the movements were delivered, and the fence of who said so.
//   - ledger:order:<id>, ledger:reservation:<id>: JSON.
//   - ledger:customer:<customer>: a sorted set of the ids of a customer's orders, by time.
//   - ledger:due: a sorted set of the ids of reservations that are held, by when they expire.
//   - ledger:behind: a set, sorted by name, of the SKUs with movements that were not delivered.
//   - ledger:key:<id>: fingerprint and reply of an idempotency key, for KeepKeys.
//
// Step is optimistic: one script reads, decide runs here, and another script writes all changes if all that was read is
// as it was. Otherwise the step begins again, after a random pause. Steps of one process with the same SKU take turns
// here, so that only instances conflict with each other.
//
// Round trips of Step, for any number of lines: 2; 1 for a replay or a refusal; one more if it is about an order or a
// reservation. Each conflict costs them again.
//
// A step changes keys of several SKUs at once, so all must be on one server: see [Redis.Ledger]. What Redis promises of
// writes that were answered is said at [Redis]: a failover may lose the last steps, whole ones, and with them keys. So
// a step that was answered before a failover, and is sent again after it, may be written twice from the client's view,
// and once in the books.
type RedisLedger struct {
	redis    *Redis
	keepKeys time.Duration
	turns    lock.Queue // by SKU
}

// Ledger returns the ledger of r. It shares r's connections and gate. All steps of a process should be those of one
// RedisLedger. It fails, with errors.ErrUnsupported, if r is a Redis Cluster: the SKUs of a cart are in different slots
// there, which no script can change in one step. See docs/adr/0020.
func (r *Redis) Ledger() (*RedisLedger, error) {
	switch r.client.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return nil, fmt.Errorf("orders cannot be kept in a Redis Cluster: the SKUs of a cart would be on different"+
			" nodes, which no script changes in one step; use one master, with Sentinel if need be, or MySQL: %w",
			errors.ErrUnsupported)
	}
	return &RedisLedger{redis: r, keepKeys: KeepKeys}, nil
}

// KeepKeysFor sets how long Redis keeps an idempotency key from now on, instead of KeepKeys. It is to be called before
// the first step, and returns l.
func (l *RedisLedger) KeepKeysFor(d time.Duration) *RedisLedger {
	l.keepKeys = d
	return l
}

const (
	// stepAttempts bounds how often a step is begun that others were faster than. Each time one of them has succeeded.
	stepAttempts = 50
	// stepPause is the longest pause before the second attempt. The pauses double up to stepPauseMost.
	stepPause     = time.Millisecond
	stepPauseMost = 32 * time.Millisecond
	// stepWithin is how long after it was read a step may be written, by the clock of Redis. A write that was under way
	// for longer, while the client asked again and was refused, must not appear afterwards.
	stepWithin = 10 * time.Second
)

//go:embed ledger_read.lua
var ledgerReadLua string

//go:embed ledger_write.lua
var ledgerWriteLua string

//go:embed ledger_due.lua
var ledgerDueLua string

//go:embed ledger_page.lua
var ledgerPageLua string

//go:embed ledger_policy.lua
var ledgerPolicyLua string

//go:embed ledger_delivered.lua
var ledgerDeliveredLua string

var (
	ledgerReadScript      = newScript(ledgerReadLua)
	ledgerWriteScript     = newScript(ledgerWriteLua)
	ledgerDueScript       = newScript(ledgerDueLua)
	ledgerPageScript      = newScript(ledgerPageLua)
	ledgerPolicyScript    = newScript(ledgerPolicyLua)
	ledgerDeliveredScript = newScript(ledgerDeliveredLua)
)

const (
	dueKey    = "ledger:due"
	behindKey = "ledger:behind"
)

func movementsKey(sku service.SKU) string { return stockKey(sku) + ":movements" }
func customersKey(sku service.SKU) string { return stockKey(sku) + ":customers" }
func deliveredKey(sku service.SKU) string { return stockKey(sku) + ":delivered" }
func orderKey(id string) string           { return "ledger:order:" + id }
func reservationKey(id string) string     { return "ledger:reservation:" + id }
func customerKey(customer string) string  { return "ledger:customer:" + customer }
func idempotencyKey(id string) string     { return "ledger:key:" + id }
func movementID(number uint64) string     { return decimal(number) + "-0" }
func digest(text string) string           { sum := sha1.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }
func micros(t time.Time) string           { return fmt.Sprint(t.UnixMicro()) }
func lastMovementID(level uint64) (id string) {
	if level > 0 {
		id = movementID(level)
	}
	return id
}

// Step reads, runs decide, and writes, again if others were faster. See RedisLedger for its round trips. If they are
// faster 50 times, or the turn does not come, it fails with lock.ErrHeld: nothing was written.
func (l *RedisLedger) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	const doing = "step of the ledger"
	if ctx.Err() != nil {
		return nil, false, ctxEnded(ctx, doing)
	}
	skus := about.SKUs
	if about.Order != "" || about.Reservation != "" {
		// Their lines never change: they tell the SKUs.
		seen, err := l.see(ctx, about, nil)
		if err != nil {
			return nil, false, err
		}
		skus = reach(about, seen.order, seen.reservation)
	}
	leave, err := l.takeTurn(ctx, skus)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", doing, err)
	}
	defer leave()
	for attempt, most := 1, stepPause; ; attempt, most = attempt+1, min(2*most, stepPauseMost) {
		reply, replayed, err = l.step(ctx, about, skus, decide)
		if err != errAgain {
			return reply, replayed, err
		}
		if attempt == stepAttempts {
			return nil, false, fmt.Errorf("%s: stock %w: others were faster %d times", doing, lock.ErrHeld, attempt)
		}
		if lock.Sleep(ctx, rand.N(most)) != nil {
			return nil, false, waitEnded(ctx, doing)
		}
	}
}

// errAgain reports that something that a step has read was changed before it was written.
var errAgain = errors.New("changed since it was read")

// takeTurn waits until no other step of this process is about any of the SKUs, which are sorted.
func (l *RedisLedger) takeTurn(ctx context.Context, skus []service.SKU) (leave func(), err error) {
	entered := 0
	leave = func() {
		for _, sku := range skus[:entered] {
			l.turns.Leave(string(sku))
		}
	}
	for _, sku := range skus {
		if err := l.turns.Enter(ctx, string(sku), lock.Options{}); err != nil {
			leave()
			return nil, err
		}
		entered++
	}
	return leave, nil
}

func (l *RedisLedger) step(
	ctx context.Context, about order.About, skus []service.SKU, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	seen, err := l.see(ctx, about, skus)
	switch {
	case err != nil:
		return nil, false, err
	case seen.known != nil:
		return seen.known.replay(about.Key)
	case len(reach(about, seen.order, seen.reservation)) != len(skus):
		return nil, false, errAgain // it was made since, and is about other SKUs
	}
	stock, err := seen.shelves(about, skus)
	if err != nil {
		return nil, false, err
	}
	c, err := decide(order.State{
		Now: seen.now, Stock: stock.levels(), Order: seen.order, Reservation: seen.reservation,
	})
	if err != nil || empty(c) {
		return nil, false, err
	}
	p, err := stock.post(seen.now, c)
	if err != nil {
		return nil, false, err
	}
	w := &redisStep{until: seen.now.Add(stepWithin), keepKeys: l.keepKeys, index: map[string]int{}}
	w.compare(about, skus, seen, c)
	w.stock(about, stock, seen, p)
	w.records(about, c)
	_, err = l.redis.run(service.Begin(ctx), "write a step of the ledger", ledgerWriteScript, w.keys, w.args()...)
	switch {
	case errors.Is(err, service.ErrConflict):
		return nil, false, errAgain
	case err != nil:
		return nil, false, err
	}
	return c.Reply, false, nil
}

// A redisSight is a sight, and the stock, as texts that a write compares with.
type redisSight struct {
	sight
	stock                      map[service.SKU]redisShelf
	orderText, reservationText string
}

// A redisShelf is what Redis knows of a SKU. Of one that is not there all texts are empty.
type redisShelf struct {
	epoch, version, guard, fence string
	stock                        service.Stock
	level                        order.Level
}

func (s redisShelf) there() bool { return s.epoch != "" }

// see reads all that a step depends on, in one round trip.
func (l *RedisLedger) see(ctx context.Context, about order.About, skus []service.SKU) (s redisSight, err error) {
	const doing = "read for a step"
	keys := make([]string, 0, 2*len(skus)+3)
	for _, sku := range skus {
		keys = append(keys, stockKey(sku), customersKey(sku))
	}
	keys = append(keys, idempotencyKey(about.Key.ID), orderKey(about.Order), reservationKey(about.Reservation))
	reply, err := l.read(ctx, doing, ledgerReadScript, keys, about.Customer)
	if err != nil {
		return s, err
	}
	f := fields{key: keys[0], values: reply}
	s.now = time.Unix(f.integer(1), 1000*f.integer(2)).UTC()
	if text := f.text(3); text != "" {
		fingerprint, kept, _ := strings.Cut(text, "\n")
		s.known = &known{fingerprint, []byte(kept)}
	}
	if s.orderText = f.text(4); s.orderText != "" {
		s.order = new(order.Order)
		err = json.Unmarshal([]byte(s.orderText), s.order)
	}
	if s.reservationText = f.text(5); s.reservationText != "" && err == nil {
		s.reservation = new(order.Reservation)
		err = json.Unmarshal([]byte(s.reservationText), s.reservation)
	}
	if err = errors.Join(err, f.err); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	s.stock = make(map[service.SKU]redisShelf, len(skus))
	for i, sku := range skus {
		values, _ := reply[6+i].([]any)
		if s.stock[sku], err = newRedisShelf(sku, values); err != nil {
			return s, err
		}
	}
	return s, nil
}

// newRedisShelf reads what ledger_read.lua says of one SKU.
func newRedisShelf(sku service.SKU, values []any) (s redisShelf, err error) {
	f := fields{key: stockKey(sku), values: values}
	s.version, s.epoch, s.fence, s.guard = f.text(3), f.text(4), f.text(5), f.text(6)
	if !s.there() {
		return s, f.err
	}
	s.stock = f.stock(sku)
	s.level = order.Level{
		Received: s.stock.Initial + f.count(8), Available: s.stock.Quantity, Reserved: f.count(7), Sold: s.stock.Sold,
		Number: uint64(f.count(9)), PerCustomer: f.count(10), Taken: f.count(11),
	}
	return s, f.err
}

// count is integer for a field that is "" until a ledger writes it.
func (f *fields) count(i int) int64 {
	if f.text(i) == "" {
		return 0
	}
	return f.integer(i)
}

// shelves returns the stock of a step, or the reason why it may not touch it.
func (s redisSight) shelves(about order.About, skus []service.SKU) (stock shelves, err error) {
	stock = make(shelves, len(skus))
	for _, sku := range skus {
		if !s.stock[sku].there() && !about.Create {
			return nil, unknownSKU(sku)
		}
	}
	for _, sku := range skus {
		at := s.stock[sku]
		if !at.there() {
			at.stock = service.Stock{SKU: sku, Version: 1, Epoch: 1}
		}
		if about.Customer == "" {
			at.level.Taken = 0
		}
		if stock[sku], err = newShelf(at.stock, at.level, about.Fences[sku]); err != nil {
			return nil, err
		}
	}
	return stock, nil
}

// A redisStep is what ledger_write.lua compares and does.
type redisStep struct {
	until            time.Time
	keepKeys         time.Duration
	keys             []string
	index            map[string]int
	number           int // of checks
	checks, commands []any
}

// key returns the number of a key.
func (w *redisStep) key(name string) int {
	if w.index[name] == 0 {
		w.keys = append(w.keys, name)
		w.index[name] = len(w.keys)
	}
	return w.index[name]
}

func (w *redisStep) check(what, key string, values ...any) {
	w.number++
	w.checks = append(append(w.checks, what, w.key(key)), values...)
}

func (w *redisStep) do(command, key string, args ...any) {
	w.commands = append(append(w.commands, 2+len(args), command, w.key(key)), args...)
}

func (w *redisStep) args() []any {
	return append(append([]any{micros(w.until), w.number}, w.checks...), w.commands...)
}

// compare says what must be as it was read: everything. What a customer has changes with the stock's version alone.
func (w *redisStep) compare(about order.About, skus []service.SKU, seen redisSight, c order.Changes) {
	for _, sku := range skus {
		at := seen.stock[sku]
		w.check("stock", stockKey(sku), at.epoch, at.version, at.guard, at.fence)
	}
	texts := map[string]string{}
	if c.Order != nil {
		texts[orderKey(c.Order.ID)] = "" // it is new, unless it is the one that was read
	}
	if c.Reservation != nil {
		texts[reservationKey(c.Reservation.ID)] = ""
	}
	if about.Order != "" {
		texts[orderKey(about.Order)] = seen.orderText
	}
	if about.Reservation != "" {
		texts[reservationKey(about.Reservation)] = seen.reservationText
	}
	if about.Key.ID != "" {
		texts[idempotencyKey(about.Key.ID)] = ""
	}
	for key, text := range texts {
		if text != "" {
			text = digest(text)
		}
		w.check("text", key, text)
	}
}

// stock writes what p moved. The streams come first: they alone can refuse what they are to append.
func (w *redisStep) stock(about order.About, stock shelves, seen redisSight, p posting) {
	for _, sku := range p.moved {
		w.check("last", movementsKey(sku), lastMovementID(seen.stock[sku].level.Number))
	}
	for _, m := range p.movements {
		w.do("XADD", movementsKey(m.SKU), movementID(m.Number), "m", encode(m))
	}
	for _, sku := range p.moved {
		at := stock[sku]
		if !seen.stock[sku].there() {
			// As set.lua does. Where somebody removed the stock by hand, its orders may still be there.
			w.do("DEL", ordersKey(sku))
			w.do("RPUSH", ordersKey(sku), 1)
			w.do("ZADD", settledKey(sku), "+inf", "")
			w.do("HSET", stockKey(sku), "initial", 0, "epoch", 1)
		}
		w.do("HSET", stockKey(sku), "quantity", at.Available, "sold", at.Sold, "version", decimal(at.stock.Version+1),
			"fence", decimal(max(at.stock.Fence, about.Fences[sku])), "guard", order.Guard,
			"reserved", at.Reserved, "adjusted", at.Received-at.stock.Initial, "number", decimal(at.Number))
		w.do("ZADD", behindKey, 0, string(sku))
	}
	for _, t := range p.taken {
		w.do("HINCRBY", customersKey(t.sku), t.customer, t.units)
	}
}

// records writes the order, the reservation and the reply.
func (w *redisStep) records(about order.About, c order.Changes) {
	if o := c.Order; o != nil {
		w.do("SET", orderKey(o.ID), encode(o))
		w.do("ZADD", customerKey(o.Customer), micros(o.CreatedAt), o.ID)
	}
	if r := c.Reservation; r != nil {
		w.do("SET", reservationKey(r.ID), encode(r))
		if r.State == order.Held {
			w.do("ZADD", dueKey, micros(r.ExpiresAt), r.ID)
		} else {
			w.do("ZREM", dueKey, r.ID)
		}
	}
	if about.Key.ID != "" && c.Reply != nil {
		w.do("SET", idempotencyKey(about.Key.ID), about.Key.Fingerprint+"\n"+string(c.Reply),
			"PX", w.keepKeys.Milliseconds())
	}
}

// read runs a script that only reads, or that may be repeated: a lost reply is lock.ErrDown.
func (l *RedisLedger) read(ctx context.Context, doing string, s script, keys []string, args ...any) ([]any, error) {
	reply, err := l.redis.run(ctx, doing, s, keys, args...)
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = idempotentFailure(ctx, doing, err)
	}
	return reply, err
}
