package ledger

import (
	"context"
	"crypto/sha1"
	_ "embed" // the scripts
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/gate"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A Redis is the order.Ledger of a Redis, and what belongs to it. Its stock is that of the Redis, with four
// fields more: reserved, adjusted, number, per_customer. These keys are added:
//
//   - stock:{<sku>}:movements: a stream. The id of a movement is its number, so Redis itself refuses one that does not
//     follow.
//   - stock:{<sku>}:carried: a hash of what stands for the movements that were archived.
//   - stock:{<sku>}:customers: a hash of what each customer has.
//   - stock:{<sku>}:delivered: a hash of how far the movements were delivered, and the fence of who said so.
//   - ledger:order:<id>, ledger:reservation:<id>: JSON.
//   - ledger:customer:<customer>: a sorted set of the ids of a customer's orders, by time.
//   - ledger:due: a sorted set of the ids of reservations that are held, by when they expire.
//   - ledger:behind: a set, sorted by name, of the SKUs with movements that were not delivered.
//   - ledger:archived: the last part that was archived.
//   - ledger:key:<id>: fingerprint and reply of an idempotency key, as long as [repo.Redis.KeepKeysFor] says.
//
// Step is optimistic: one script reads, decide runs here, and another script writes all changes if all that was read is
// as it was. Otherwise the step begins again, after a random pause. Steps of one process with the same SKU take turns
// here, so that only instances conflict with each other. Batch does the same for many steps: each is decided on what
// those before it leave (see draft), and one script writes all of them.
//
// Round trips of Step and Batch, for any number of lines and steps: 2; 1 where all are replays or refusals; one more
// for a Step about an order or a reservation. Each conflict costs them again.
//
// A step changes keys of several SKUs at once, so all must be on one server: see [NewRedis]. What Redis promises of
// writes that were answered is said at stock.Redis: a failover may lose the last steps, whole ones, and with them keys.
// So a step that was answered before a failover, and is sent again after it, may be written twice from the client's
// view, and once in the books.
type Redis struct {
	redis *repo.Redis
	turns *gate.Gate // by SKU
}

// NewRedis returns the ledger in r. All steps of a process should be those of one Redis. It fails, with
// errors.ErrUnsupported, if r is a Redis Cluster: the SKUs of a cart are in different slots there, which no script can
// change in one step. See docs/adr/0020.
func NewRedis(r *repo.Redis) (*Redis, error) {
	switch r.Client().(type) {
	case *redis.ClusterClient, *redis.Ring:
		return nil, fmt.Errorf("orders cannot be kept in a Redis Cluster: the SKUs of a cart would be on different"+
			" nodes, which no script changes in one step; use one master, with Sentinel if need be, or MySQL: %w",
			errors.ErrUnsupported)
	}
	return &Redis{redis: r, turns: gate.New(gate.Limits{In: math.MaxInt, PerKey: 1})}, nil
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

//go:embed read.lua
var ledgerReadLua string

//go:embed write.lua
var ledgerWriteLua string

//go:embed due.lua
var ledgerDueLua string

//go:embed page.lua
var ledgerPageLua string

//go:embed policy.lua
var ledgerPolicyLua string

var (
	ledgerReadScript   = redisscript.New(ledgerReadLua)
	ledgerWriteScript  = redisscript.New(ledgerWriteLua)
	ledgerDueScript    = redisscript.New(ledgerDueLua)
	ledgerPageScript   = redisscript.New(ledgerPageLua)
	ledgerPolicyScript = redisscript.New(ledgerPolicyLua)
)

const (
	dueKey    = "ledger:due"
	behindKey = "ledger:behind"
)

func movementsKey(sku service.SKU) string { return repo.StockKey(sku) + ":movements" }
func carriedKey(sku service.SKU) string   { return repo.StockKey(sku) + ":carried" }
func customersKey(sku service.SKU) string { return repo.StockKey(sku) + ":customers" }
func orderKey(id string) string           { return "ledger:order:" + id }
func reservationKey(id string) string     { return "ledger:reservation:" + id }
func customerKey(customer string) string  { return "ledger:customer:" + customer }
func movementID(number uint64) string     { return repo.Decimal(number) + "-0" }
func digest(text string) string           { sum := sha1.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }
func micros(t time.Time) string           { return fmt.Sprint(t.UnixMicro()) }
func lastMovementID(level uint64) (id string) {
	if level > 0 {
		id = movementID(level)
	}
	return id
}

// Step reads, runs decide, and writes, again if others were faster. See Redis for its round trips. If they are
// faster 50 times, or the turn does not come, it fails with lock.ErrHeld: nothing was written.
func (l *Redis) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	named := about.SKUs
	for attempt := 1; ; attempt++ {
		if about.Order != "" || about.Reservation != "" {
			// Their lines never change: they tell the SKUs.
			if ctx.Err() != nil {
				return nil, false, repo.CtxEnded(ctx, "step of the ledger")
			}
			s := scopeOf([]order.Request{{About: about}})
			s.skus, s.customers = nil, nil
			seen, err := l.see(ctx, s)
			if err != nil {
				return nil, false, err
			}
			if known := seen.keys[about.Key.ID]; known != nil {
				return known.replay(about.Key)
			}
			about.SKUs = named
			about.SKUs = reach(about, seen.orders[about.Order], seen.reservations[about.Reservation])
		}
		one, err := l.batch(ctx, []order.Request{{About: about, Decide: decide}})
		if err != nil {
			return nil, false, err
		}
		if attempt < repo.Attempts && errors.Is(one[0].Err, errElsewhere) {
			continue // it was made since
		}
		return one[0].Reply, one[0].Replayed, one[0].Err
	}
}

// Batch makes the steps with one script that reads and one that writes. See Redis for its round trips.
func (l *Redis) Batch(ctx context.Context, steps []order.Request) []order.StepResult {
	outcomes, err := l.batch(ctx, steps)
	if err != nil {
		outcomes = make([]order.StepResult, len(steps))
	}
	for i := range steps {
		switch {
		case err != nil && (len(steps) == 1 || !ofOneStep(err)):
			outcomes[i].Err = err
		case err != nil, errors.Is(outcomes[i].Err, errElsewhere):
			outcomes[i] = outcomeOf(l.Step(ctx, steps[i].About, steps[i].Decide))
		}
	}
	return outcomes
}

// ofOneStep reports whether err says that a script has refused what it was to write, such as to a key of another type
// or an id that is taken, and has written nothing.
func ofOneStep(err error) bool {
	if errors.Is(err, errFaster) {
		return true
	}
	for _, ofAll := range []error{
		lock.ErrDown, lock.ErrHeld, lock.ErrOverloaded, service.ErrOutcomeUnknown,
		context.Canceled, context.DeadlineExceeded,
	} {
		if errors.Is(err, ofAll) {
			return false
		}
	}
	return true
}

// batch makes steps, again if others were faster. The error is of all of them.
func (l *Redis) batch(ctx context.Context, steps []order.Request) ([]order.StepResult, error) {
	const doing = "step of the ledger"
	if ctx.Err() != nil {
		return nil, repo.CtxEnded(ctx, doing)
	}
	s := scopeOf(steps)
	leave, err := l.takeTurn(ctx, s.skus)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	defer leave()
	for attempt, most := 1, stepPause; ; attempt, most = attempt+1, min(2*most, stepPauseMost) {
		outcomes, err := l.try(ctx, s, steps)
		if err != errAgain {
			return outcomes, err
		}
		if attempt == stepAttempts {
			return nil, fmt.Errorf("%s: stock %w: %w %d times", doing, lock.ErrHeld, errFaster, attempt)
		}
		if lock.Sleep(ctx, rand.N(most)) != nil {
			return nil, repo.WaitEnded(ctx, doing)
		}
	}
}

var errFaster = errors.New("others were faster")

// errAgain reports that something that a step has read was changed before it was written.
var errAgain = errors.New("changed since it was read")

// takeTurn waits until no other step of this process is about any of the SKUs, which are sorted.
func (l *Redis) takeTurn(ctx context.Context, skus []service.SKU) (leave func(), err error) {
	var entered []func()
	leave = func() {
		for _, leave := range entered {
			leave()
		}
	}
	for _, sku := range skus {
		one, err := l.turns.Enter(ctx, gate.Request{Key: string(sku)})
		if err != nil {
			leave()
			return nil, errors.Join(&lock.HeldError{Key: string(sku)}, ctx.Err())
		}
		entered = append(entered, one)
	}
	return leave, nil
}

// try makes steps once.
func (l *Redis) try(ctx context.Context, s scope, steps []order.Request) ([]order.StepResult, error) {
	seen, err := l.see(ctx, s)
	if err != nil {
		return nil, err
	}
	d := seen.draft
	outcomes := d.all(steps)
	if d.unchanged() {
		return outcomes, nil
	}
	w := &redisStep{until: d.now.Add(stepWithin), keepKeys: l.redis.KeepKeys(), index: map[string]int{}}
	w.compare(s, seen)
	w.stock(seen)
	w.records(d)
	_, err = l.redis.Run(service.Begin(ctx), "write a step of the ledger", ledgerWriteScript, w.keys, w.args()...)
	switch {
	case errors.Is(err, service.ErrConflict):
		return nil, errAgain
	case err != nil:
		return nil, err
	}
	return outcomes, nil
}

// A redisSight is what a batch has read, also as texts that a write compares with.
type redisSight struct {
	*draft
	shelves map[service.SKU]redisShelf
	texts   map[string]string // of orders and reservations, by key
}

// A redisShelf is what Redis knows of a SKU. Of one that is not there all texts are empty.
type redisShelf struct {
	epoch, version, guard, fence string
	stock                        service.Stock
	level                        order.Level
}

func (s redisShelf) there() bool { return s.epoch != "" }

// see reads all that a batch depends on, in one round trip.
func (l *Redis) see(ctx context.Context, of scope) (s redisSight, err error) {
	const doing = "read for a step"
	var keys []string
	for _, sku := range of.skus {
		keys = append(keys, repo.StockKey(sku))
	}
	args := []any{len(of.skus), len(of.customers)}
	for _, c := range of.customers {
		keys = append(keys, customersKey(c.sku))
		args = append(args, c.customer)
	}
	for _, id := range of.keys {
		keys = append(keys, idempotencyKey(id))
	}
	for _, id := range of.orders {
		keys = append(keys, orderKey(id))
	}
	for _, id := range of.reservations {
		keys = append(keys, reservationKey(id))
	}
	if len(keys) == 0 {
		keys = []string{idempotencyKey("")} // that is not there: a call is sent by its first key
	}
	reply, err := l.read(ctx, doing, ledgerReadScript, keys, args...)
	if err != nil {
		return s, err
	}
	f := repo.Fields{Key: keys[0], Values: reply}
	s = redisSight{newDraft(), map[service.SKU]redisShelf{}, map[string]string{}}
	s.now = time.Unix(f.Integer(1), 1000*f.Integer(2)).UTC()
	s.creates = true
	rest := reply[3:]
	next := func() (v any) {
		v, rest = rest[0], rest[1:]
		return v
	}
	for _, sku := range of.skus {
		values, _ := next().([]any)
		at, err := newRedisShelf(sku, values)
		if err != nil {
			return s, err
		}
		s.shelves[sku] = at
		if s.stock[sku] = newShelf(at.stock, at.level); !at.there() {
			s.stock[sku] = &shelf{stock: service.Stock{SKU: sku, Version: 1, Epoch: 1}}
		}
	}
	for _, c := range of.customers {
		if text, _ := next().(string); text != "" {
			one := repo.Fields{Key: customersKey(c.sku), Values: []any{text}}
			s.taken[c] = one.Integer(0)
			err = errors.Join(err, one.Err)
		}
	}
	for _, id := range of.keys {
		if text, _ := next().(string); text != "" {
			fingerprint, kept, _ := strings.Cut(text, "\n")
			s.keys[id] = &known{fingerprint, []byte(kept)}
		}
	}
	record := func(id, key string, into any) bool {
		text, _ := next().(string)
		s.texts[key] = text
		if text == "" {
			return false
		}
		s.stored[id] = true
		err = errors.Join(err, json.Unmarshal([]byte(text), into))
		return true
	}
	for _, id := range of.orders {
		if o := new(order.Order); record(id, orderKey(id), o) {
			s.orders[id] = o
		}
	}
	for _, id := range of.reservations {
		if r := new(order.Reservation); record(id, reservationKey(id), r) {
			s.reservations[id] = r
		}
	}
	if err = errors.Join(err, f.Err); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	return s, nil
}

// newRedisShelf reads what ledger_read.lua says of one SKU.
func newRedisShelf(sku service.SKU, values []any) (s redisShelf, err error) {
	f := repo.Fields{Key: repo.StockKey(sku), Values: values}
	s.version, s.epoch, s.fence, s.guard = f.Text(3), f.Text(4), f.Text(5), f.Text(6)
	if !s.there() {
		return s, f.Err
	}
	s.stock = f.Stock(sku)
	s.level = order.Level{
		Received: s.stock.Initial + count(&f, 8), Available: s.stock.Quantity, Reserved: count(&f, 7),
		Sold:   s.stock.Sold,
		Number: uint64(count(&f, 9)), PerCustomer: count(&f, 10),
	}
	return s, f.Err
}

// count is integer for a field that is "" until a ledger writes it.
func count(f *repo.Fields, i int) int64 {
	if f.Text(i) == "" {
		return 0
	}
	return f.Integer(i)
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
func (w *redisStep) compare(of scope, seen redisSight) {
	for _, sku := range of.skus {
		at := seen.shelves[sku]
		w.check("stock", repo.StockKey(sku), at.epoch, at.version, at.guard, at.fence)
	}
	keys := slices.Collect(maps.Keys(seen.texts))
	// Those that are written and were not read are new.
	for _, id := range seen.ordered {
		keys = append(keys, orderKey(id))
	}
	for _, id := range seen.reserved {
		keys = append(keys, reservationKey(id))
	}
	for _, id := range seen.keptKeys() {
		keys = append(keys, idempotencyKey(id))
	}
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		text := seen.texts[key]
		if text != "" {
			text = digest(text)
		}
		w.check("text", key, text)
	}
}

// stock writes what was moved. The streams come first: they alone can refuse what they are to append.
func (w *redisStep) stock(seen redisSight) {
	skus := seen.movedSKUs()
	for _, sku := range skus {
		last := lastMovementID(seen.shelves[sku].level.Number)
		w.check("last", movementsKey(sku), last, w.key(carriedKey(sku)))
	}
	for _, m := range seen.movements {
		w.do("XADD", movementsKey(m.SKU), movementID(m.Number), "m", repo.Encode(m))
	}
	for _, sku := range skus {
		at := seen.draft.stock[sku]
		if !seen.shelves[sku].there() {
			// As set.lua does. Where somebody removed the stock by hand, its orders may still be there.
			w.do("DEL", repo.OrdersKey(sku))
			w.do("RPUSH", repo.OrdersKey(sku), 1)
			w.do("ZADD", repo.SettledKey(sku), "+inf", "")
			w.do("HSET", repo.StockKey(sku), "initial", 0, "epoch", 1)
		}
		w.do("HSET", repo.StockKey(sku), "quantity", at.Available, "sold", at.Sold,
			"version", repo.Decimal(at.stock.Version),
			"fence", repo.Decimal(at.stock.Fence), "guard", at.stock.Guard,
			"reserved", at.Reserved, "adjusted", at.Received-at.stock.Initial, "number", repo.Decimal(at.Number))
		w.do("ZADD", behindKey, 0, string(sku))
	}
	for _, t := range seen.givenUnits() {
		w.do("HINCRBY", customersKey(t.sku), t.customer, t.units)
	}
}

// records writes the orders, the reservations and the replies.
func (w *redisStep) records(d *draft) {
	for _, id := range d.ordered {
		o := d.orders[id]
		w.do("SET", orderKey(o.ID), repo.Encode(o))
		w.do("ZADD", customerKey(o.Customer), micros(o.CreatedAt), o.ID)
	}
	for _, id := range d.reserved {
		r := d.reservations[id]
		w.do("SET", reservationKey(r.ID), repo.Encode(r))
		if r.State == order.Held {
			w.do("ZADD", dueKey, micros(r.ExpiresAt), r.ID)
		} else {
			w.do("ZREM", dueKey, r.ID)
		}
	}
	for _, id := range d.keptKeys() {
		w.do("SET", idempotencyKey(id), d.kept[id].Fingerprint+"\n"+string(d.keys[id].Reply),
			"PX", w.keepKeys.Milliseconds())
	}
}

// read runs a script that only reads, or that may be repeated: a lost reply is lock.ErrDown.
func (l *Redis) read(
	ctx context.Context, doing string, s *redisscript.Script, keys []string, args ...any,
) ([]any, error) {
	reply, err := l.redis.Run(ctx, doing, s, keys, args...)
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = repo.IdempotentFailure(ctx, doing, err)
	}
	return reply, err
}
