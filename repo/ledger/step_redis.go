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

// A Redis is the order.Ledger in Redis. It shares the hash of each SKU with the demonstration's store, and adds four
// fields to it: reserved, adjusted, number, per_customer. It adds these keys:
//
//   - stock:{<sku>}:movements: a stream. The id of a movement is its number, so Redis refuses a number that is not
//     larger than the last one.
//   - stock:{<sku>}:carried: a hash with the movement that replaces the archived ones.
//   - stock:{<sku>}:customers: a hash of the units that each customer has.
//   - stock:{<sku>}:delivered: a hash with the number of the last delivered movement, and the fence of the relay that
//     recorded it.
//   - ledger:order:<id>, ledger:reservation:<id>: JSON.
//   - ledger:customer:<customer>: a sorted set of the ids of a customer's orders, by time.
//   - ledger:held:<customer>: a hash of the units of each open reservation of a customer. An entry counts only if the
//     reservation is in ledger:due, because an older instance ends a reservation without removing its entry.
//   - ledger:due: a sorted set of the ids of held reservations, by the time when they expire.
//   - ledger:behind: a set, sorted by name, of the SKUs with undelivered movements.
//   - ledger:archived: the last archived part.
//   - ledger:key:<id>: fingerprint and reply of an idempotency key, for the time of [repo.Redis.KeepKeysFor].
//
// Step is optimistic: one script reads, decide runs in this process, and another script writes all changes if the data
// that were read are unchanged. Otherwise the step begins again after a random pause, so decide may be called more than
// once. Steps of one process with the same SKU take turns, so only different instances conflict. Batch does this for
// many steps at once. Each step sees the changes of the steps before it (see pendingWrite), and one script writes the
// changes of all steps.
//
// Step and Batch take two round trips for any number of lines and steps, or one if all steps are replays or refusals.
// A Step about an order or a reservation takes one more. Each conflict repeats these round trips.
//
// A step changes keys of several SKUs at once, so all keys must be on one server: see [NewRedis]. As for stock.Redis, a
// failover may lose the last answered writes. A lost step is lost as a whole, with its idempotency key. If the client
// sends the request again, the step is made again, although the client already had a reply to the first request.
type Redis struct {
	redis *repo.Redis
	turns *gate.Gate // by SKU
}

// NewRedis returns a ledger that uses r. Make one for each process, because steps take turns only within one ledger.
// NewRedis fails with errors.ErrUnsupported if r is a Redis Cluster: there the SKUs of a cart are in different slots,
// and no script can change them in one step. See docs/adr/README.md.
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
	// stepAttempts is the largest number of attempts of a step. Each attempt that fails means that another step has
	// succeeded.
	stepAttempts = 50
	// stepPause is the longest pause before the second attempt. The pauses double up to stepPauseMost.
	stepPause     = time.Millisecond
	stepPauseMost = 32 * time.Millisecond
	// stepWithin is how long after its read a step may be written, by the clock of Redis. Without this limit, a delayed
	// write could take effect after the client has repeated its request and got a refusal.
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
func heldKey(customer string) string      { return "ledger:held:" + customer }
func movementID(number uint64) string     { return repo.Decimal(number) + "-0" }
func digest(text string) string           { sum := sha1.Sum([]byte(text)); return hex.EncodeToString(sum[:]) }
func micros(t time.Time) string           { return fmt.Sprint(t.UnixMicro()) }
func lastMovementID(level uint64) (id string) {
	if level > 0 {
		id = movementID(level)
	}
	return id
}

// Step reads, calls decide, and writes. It begins again if the data have changed in between. See Redis for its round
// trips. It fails with lock.ErrHeld after stepAttempts (50), or if other steps of this process keep it waiting too
// long. Then nothing was written.
func (l *Redis) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	named := about.SKUs
	for attempt := 1; ; attempt++ {
		if about.Order != "" || about.Reservation != "" {
			// The lines of an order or a reservation never change, so their SKUs can be read before the step.
			if ctx.Err() != nil {
				return nil, false, repo.CtxEnded(ctx, "step of the ledger")
			}
			s := scopeOf([]order.Request{{About: about}})
			s.skus, s.customers, s.holders = nil, nil, nil
			seen, err := l.see(ctx, s)
			if err != nil {
				return nil, false, err
			}
			if known := seen.keys[about.Key.ID]; known != nil {
				return known.replay(about.Key)
			}
			about.SKUs = named
			about.SKUs = skusOf(about, seen.orders[about.Order], seen.reservations[about.Reservation])
		}
		one, err := l.batch(ctx, []order.Request{{About: about, Decide: decide}})
		if err != nil {
			return nil, false, err
		}
		if attempt < repo.Attempts && errors.Is(one[0].Err, errElsewhere) {
			continue // the order or the reservation was made since the first read
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

// ofOneStep reports whether a single step of a batch may have caused err, for example by a key of another type or an
// id that exists. Then the script has written nothing.
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

// batch makes steps, and begins again if another client has changed the data in between. If batch returns an error, all
// steps have failed with this error.
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

// errAgain reports that data which a step has read was changed before the write.
var errAgain = errors.New("changed since it was read")

// takeTurn waits until no other step of this process uses any of skus, which are sorted.
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
	p := seen.pendingWrite
	outcomes := p.all(steps)
	if p.unchanged() {
		return outcomes, nil
	}
	w := &redisStep{until: p.now.Add(stepWithin), keepKeys: l.redis.KeepKeys(), index: map[string]int{}}
	w.compare(s, seen)
	w.stock(seen)
	w.records(p)
	_, err = l.redis.Run(service.Begin(ctx), "write a step of the ledger", ledgerWriteScript, w.keys, w.args()...)
	switch {
	case errors.Is(err, service.ErrConflict):
		return nil, errAgain
	case err != nil:
		return nil, err
	}
	return outcomes, nil
}

// A redisRead has the data that a batch has read, parsed and as the texts that write.lua compares.
type redisRead struct {
	*pendingWrite
	levels map[service.SKU]redisLevel
	held   map[string]order.Holding // of the holders, as it was read
	texts  map[string]string        // of orders and reservations, by key
}

// A redisLevel is the hash of a SKU. If the SKU does not exist, all its texts are empty.
type redisLevel struct {
	epoch, version, guard, fence string
	stock                        service.Stock
	level                        order.Level
}

func (s redisLevel) there() bool { return s.epoch != "" }

// see reads all records that a batch needs, in one round trip.
func (l *Redis) see(ctx context.Context, of scope) (s redisRead, err error) {
	const doing = "read for a step"
	var keys []string
	for _, sku := range of.skus {
		keys = append(keys, repo.StockKey(sku))
	}
	args := []any{len(of.skus), len(of.customers), len(of.holders)}
	for _, c := range of.customers {
		keys = append(keys, customersKey(c.sku))
		args = append(args, c.customer)
	}
	if len(of.holders) > 0 {
		keys = append(keys, dueKey)
	}
	for _, customer := range of.holders {
		keys = append(keys, heldKey(customer))
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
		keys = []string{idempotencyKey("")} // there is no such key, but Run needs one
	}
	reply, err := l.read(ctx, doing, ledgerReadScript, keys, args...)
	if err != nil {
		return s, err
	}
	f := repo.Fields{Key: keys[0], Values: reply}
	s = redisRead{
		newPendingWrite(), map[service.SKU]redisLevel{}, map[string]order.Holding{}, map[string]string{},
	}
	s.now = time.Unix(f.Integer(1), 1000*f.Integer(2)).UTC()
	s.creates = true
	rest := reply[3:]
	next := func() (v any) {
		v, rest = rest[0], rest[1:]
		return v
	}
	for _, sku := range of.skus {
		values, _ := next().([]any)
		at, err := newRedisLevel(sku, values)
		if err != nil {
			return s, err
		}
		s.levels[sku] = at
		if s.stock[sku] = newStockLevel(at.stock, at.level); !at.there() {
			s.stock[sku] = &stockLevel{stock: service.Stock{SKU: sku, Version: 1, Epoch: 1}}
		}
	}
	for _, c := range of.customers {
		if text, _ := next().(string); text != "" {
			one := repo.Fields{Key: customersKey(c.sku), Values: []any{text}}
			s.taken[c] = one.Integer(0)
			err = errors.Join(err, one.Err)
		}
	}
	for _, customer := range of.holders {
		values, _ := next().([]any)
		one := repo.Fields{Key: heldKey(customer), Values: values}
		s.held[customer] = order.Holding{Open: one.Integer(0), Units: one.Integer(1)}
		s.holdings[customer] = s.held[customer]
		err = errors.Join(err, one.Err)
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

// newRedisLevel parses what read.lua returns for one SKU.
func newRedisLevel(sku service.SKU, values []any) (s redisLevel, err error) {
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

// count returns an integer field that is "" until a ledger writes it.
func count(f *repo.Fields, i int) int64 {
	if f.Text(i) == "" {
		return 0
	}
	return f.Integer(i)
}

// A redisStep collects the arguments of write.lua: its checks and its commands.
type redisStep struct {
	until            time.Time
	keepKeys         time.Duration
	keys             []string
	index            map[string]int
	number           int // of checks
	checks, commands []any
}

// key returns the index of a key in KEYS, and adds the key if it is new.
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

// compare adds checks that the data that were read are unchanged. The customers' units need no check, because the
// version of the stock changes with them.
func (w *redisStep) compare(of scope, seen redisRead) {
	for _, sku := range of.skus {
		at := seen.levels[sku]
		w.check("stock", repo.StockKey(sku), at.epoch, at.version, at.guard, at.fence)
	}
	for _, customer := range of.holders {
		has := seen.held[customer]
		w.check("held", heldKey(customer), w.key(dueKey), has.Open, has.Units)
	}
	keys := slices.Collect(maps.Keys(seen.texts))
	// A key that is written but was not read must not exist.
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

// stock adds the commands for the movements and the stock. XADD comes first, because it is the only command that Redis
// may refuse.
func (w *redisStep) stock(seen redisRead) {
	skus := seen.movedSKUs()
	for _, sku := range skus {
		last := lastMovementID(seen.levels[sku].level.Number)
		w.check("last", movementsKey(sku), last, w.key(carriedKey(sku)))
	}
	for _, m := range seen.movements {
		w.do("XADD", movementsKey(m.SKU), movementID(m.Number), "m", repo.Encode(m))
	}
	for _, sku := range skus {
		at := seen.pendingWrite.stock[sku]
		if !seen.levels[sku].there() {
			// As in set.lua: if the hash was deleted by hand, the list of its orders may still exist.
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

// records adds the commands for the orders, the reservations and the idempotency keys.
func (w *redisStep) records(p *pendingWrite) {
	for _, id := range p.ordered {
		o := p.orders[id]
		w.do("SET", orderKey(o.ID), repo.Encode(o))
		w.do("ZADD", customerKey(o.Customer), micros(o.CreatedAt), o.ID)
	}
	for _, id := range p.reserved {
		r := p.reservations[id]
		w.do("SET", reservationKey(r.ID), repo.Encode(r))
		if r.State == order.Held {
			w.do("ZADD", dueKey, micros(r.ExpiresAt), r.ID)
			w.do("HSET", heldKey(r.Customer), r.ID, order.Units(r.Lines))
		} else {
			w.do("ZREM", dueKey, r.ID)
			w.do("HDEL", heldKey(r.Customer), r.ID)
		}
	}
	for _, id := range p.keptKeys() {
		w.do("SET", idempotencyKey(id), p.kept[id].Fingerprint+"\n"+string(p.keys[id].Reply),
			"PX", w.keepKeys.Milliseconds())
	}
}

// read runs an idempotent script, so a lost reply is lock.ErrDown.
func (l *Redis) read(
	ctx context.Context, doing string, s *redisscript.Script, keys []string, args ...any,
) ([]any, error) {
	reply, err := l.redis.Run(ctx, doing, s, keys, args...)
	if errors.Is(err, service.ErrOutcomeUnknown) {
		err = repo.IdempotentFailure(ctx, doing, err)
	}
	return reply, err
}
