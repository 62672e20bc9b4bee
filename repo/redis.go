package repo

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/rediserr"
	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
	"example.com/stock/repo/gate"
	"example.com/stock/service"
)

// Redis keeps stock and orders in Redis. Each SKU has these keys, all but one of them from when it is first set:
//
//   - stock:{<sku>}: a hash, with the segments of the stock if there are any.
//   - stock:{<sku>}:orders: a list, which begins with the number of the epoch and then has its orders as they were
//     written. When the stock is set again it becomes stock:{<sku>}:orders:<epoch>, and expires after KeepOrders.
//   - stock:{<sku>}:key:<digest>: the order that was written with an idempotency key, and its fingerprint, for
//     as long as [Redis.KeepKeysFor] says. It is there only if a client sent one.
//   - stock:{<sku>}:settled: a sorted set of the ids that [Redis.Settle] has declared absent, scored by the time when
//     they may be forgotten.
//
// The braces are a hash tag: all keys of a SKU are in one slot of a cluster, so that one script can use them. Scripts
// name all keys that they use. A cluster that is moving the slot then refuses a script (TRYAGAIN) while some of the
// keys are on one node and others on another. The script has done nothing, and is sent again until ctx ends. A cluster
// cannot know where a key is that does not exist: so all three keys are made at once, and Set waits for the end of the
// move, as does a sale with an idempotency key.
//
// Every operation is one round trip, except Set (two) and Settle. The first use of a script after a restart of Redis
// takes one more. Scripts run one at a time, so nothing can come between the deduction and its order.
//
// The orders of the current epoch are never removed: whoever judges a run needs all of them. Each takes some 300 bytes,
// so a million takes 300 MB, and without maxmemory Redis takes what there is. Setting the stock again begins a new
// list.
//
// What is not promised: that an answered write survives. Redis answers before it has written to disk or to a replica.
// A crash can lose the last second and a failover the last writes, and with them fences, versions and what was settled.
// It never loses half of a sale. The option lock.replicas does not change that: it is about locks, and writes to the
// stock wait for no replica. A WAIT after each would be a second round trip, and could not be undone where too few
// replicas answer: that sale is written, and whether it survives is as open as before.
type Redis struct {
	client   redis.UniversalClient
	gate     *gate.Gate // nil: none
	keepKeys time.Duration
	answerCounter
}

// NewRedis returns a Redis that uses c. Set c's ContextTimeoutEnabled: without it go-redis notices a deadline only
// before it sends, and a silent server holds a caller for ReadTimeout (5 s). c's MaxRetries applies to reads alone:
// scripts are sent once, see package redisscript.
//
// When a ctx is cancelled, rather than timed out, after a request was sent, the reply is still awaited: leaving would
// not undo the write but only make its outcome unknown.
func NewRedis(c redis.UniversalClient) *Redis { return &Redis{client: c, keepKeys: service.KeepKeys} }

// KeepKeysFor sets how long r keeps the idempotency keys of deductions and of the ledger, instead of service.KeepKeys.
// Call it before the first write. It returns r.
func (r *Redis) KeepKeysFor(d time.Duration) *Redis {
	r.keepKeys = d
	return r
}

// Behind puts a bounded queue in front of every operation. An operation that g refuses, or does not admit within half
// of its time, fails with lock.ErrOverloaded, and nothing was done. The other half of the time is left for Redis. Let g
// admit no more operations than c has connections, and let nothing else use c: then an admitted operation finds a
// connection. Behind returns r.
func (r *Redis) Behind(g *gate.Gate) *Redis {
	r.gate = g
	return r
}

// enter waits until the gate admits an operation. key is the key of the stock: operations on the same SKU share a
// queue.
func (r *Redis) enter(ctx context.Context, doing, key string) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctxEnded(ctx, doing)
	}
	return enter(ctx, r.gate, doing, key)
}

func stockKey(sku service.SKU) string   { return "stock:{" + string(sku) + "}" }
func ordersKey(sku service.SKU) string  { return stockKey(sku) + ":orders" }
func settledKey(sku service.SKU) string { return stockKey(sku) + ":settled" }

// The keys of scripts. The first is always that of the stock, or begins with it.
func stockKeys(sku service.SKU) []string { return []string{stockKey(sku)} }

// stock returns the stock whose fields are f, in the order of stockFields.
func (f *fields) stock(sku service.SKU) service.Stock {
	return service.Stock{
		SKU: sku, Quantity: f.integer(0), Initial: f.integer(1), Sold: f.integer(2),
		Version: f.natural(3), Epoch: f.natural(4), Fence: f.natural(5), Guard: f.text(6),
	}
}

// The pauses before a script that a cluster has refused is sent again. The move of a slot takes milliseconds for each
// batch of keys. The pauses grow, and are random, so that the waiting scripts do not come all at once.
const (
	movingPause = time.Millisecond
	movingMost  = 50 * time.Millisecond
)

// run runs s once and turns a refusal into its error. The first element of the reply is "ok". While a cluster is moving
// the slot, run waits until ctx ends.
func (r *Redis) run(
	ctx context.Context, doing string, s *redisscript.Script, keys []string, args ...any,
) ([]any, error) {
	leave, err := r.enter(ctx, doing, keys[0])
	if err != nil {
		return nil, err
	}
	defer leave()
	var moving error
	for most := movingPause; ; most = min(2*most, movingMost) {
		reply, err := s.Run(ctx, r.client, keys, args...).Slice()
		if slotMoving(err) {
			moving = err
		}
		switch {
		case err == nil:
			r.countAnswer(nil)
			return reply, refusal(doing, keys[0], reply)
		case slotMoving(err) && lock.Sleep(ctx, most/2+rand.N(most)) == nil:
		case sent(err):
			return nil, outcomeUnknown(doing, err)
		case moving != nil && errors.Is(err, ctx.Err()):
			return nil, redisFault(ctx, doing, keys[0], moving) // that is what the time was spent on
		default:
			return nil, redisFault(ctx, doing, keys[0], err)
		}
	}
}

// probeKey is the key that CanWrite does not write.
const probeKey = "stock:probe"

// CanWrite reports whether the server takes a write: it sends one that changes nothing, because the key is not there.
// Redis checks it as any other, so that a replica, a Redis that is out of memory, cannot save or lacks replicas refuses
// it. It is one round trip, for a health probe; of a Cluster it asks the node of one slot. Errors match lock.ErrDown.
func (r *Redis) CanWrite(ctx context.Context) error {
	err := r.client.SetXX(ctx, probeKey, "", 0).Err()
	if err == nil || errors.Is(err, redis.Nil) {
		return nil
	}
	return redisFault(ctx, "write a probe", probeKey, err)
}

// refusal returns the error that the reply of a script stands for.
func refusal(doing, key string, reply []any) error {
	f := fields{key: key, values: reply}
	switch word := f.text(0); word {
	case "ok":
		return nil
	case "unknown sku":
		return unknownSKU(service.SKU(strings.TrimSuffix(strings.TrimPrefix(key, "stock:{"), "}")))
	case "reset":
		return service.ErrStockReset
	case "settled":
		return service.ErrSettled
	case "key taken":
		return service.ErrKeyTaken
	case "full":
		return errTooManySettled
	case "no orders":
		return fmt.Errorf("%s: key %s:orders is not the orders of this epoch: they are lost,"+
			" or of an earlier version of this service; set the stock again", doing, key)
	case "guarded":
		return &service.GuardError{Guard: f.text(1)}
	case "no movements":
		return fmt.Errorf("%s: key %s does not end with the last movement of its SKU: the ledger is damaged",
			doing, f.text(1))
	case "changed":
		return service.ErrConflict
	case "precondition":
		return service.ErrPrecondition
	case "stale fence":
		return staleFence(f.text(1))
	case "sold out":
		left := f.integer(1)
		return errors.Join(f.err, &service.SoldOutError{Remaining: left})
	default:
		return fmt.Errorf("%s: script answered %q", doing, word)
	}
}

// sent reports whether a command that failed with err may have run. It has not run where there was no connection to
// send it on, and where Redis answered with an error, with the exceptions in package rediserr. All else counts as
// sent. That includes a greeting (HELLO) that the server left unanswered on a new connection, which looks the same: an
// error that promises less than it could is safe.
func sent(err error) bool {
	var answered redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answered):
		meaning, _ := rediserr.Of(err)
		return meaning.Outcome == rediserr.Unknown
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// go-redis looks at ctx while it waits for a connection. A deadline that passes on the socket is
		// os.ErrDeadlineExceeded.
		return false
	}
	return true
}

// slotMoving reports whether a cluster refused a command because it is moving the slot. Then the command has done
// nothing. go-redis itself follows MOVED and ASK a few times, which repeats nothing that a server has executed.
func slotMoving(err error) bool {
	meaning, _ := rediserr.Of(err)
	return meaning.Outcome == rediserr.Moving
}

// redisFault returns the error for a failed request that wrote nothing.
func redisFault(ctx context.Context, doing, key string, err error) error {
	var answered redis.Error
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		// All connections are busy: that is our load, and says nothing about the server.
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	if !errors.As(err, &answered) {
		if ctx.Err() != nil {
			return ctxEnded(ctx, doing)
		}
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			// The socket has the same deadline, and may notice it a moment before ctx does.
			return lock.Down(doing, context.DeadlineExceeded)
		}
		return lock.Down(doing, err)
	}
	if strings.Contains(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("%s: key %s must be a hash, %s:orders a list and %s:settled a sorted set;"+
			" delete what is there and set the stock again: %w", doing, key, key, key, err)
	}
	if meaning, known := rediserr.Of(err); known {
		down := &lock.DownError{Server: "redis", Reason: meaning.Reason, Full: meaning.Full}
		return fmt.Errorf("%s: %w: %w", doing, down, err)
	}
	return lock.Down(doing, err)
}

// fields are strings that Redis answered. The error of the first that cannot be parsed becomes err.
type fields struct {
	key    string
	values []any
	err    error
}

func (f *fields) text(i int) string {
	if i < len(f.values) {
		if s, ok := f.values[i].(string); ok {
			return s
		}
	}
	f.fail(errors.New("a field is missing"))
	return ""
}

func (f *fields) integer(i int) int64 {
	n, err := strconv.ParseInt(f.text(i), 10, 64)
	f.fail(err)
	return n
}

func (f *fields) natural(i int) uint64 {
	n, err := strconv.ParseUint(f.text(i), 10, 64)
	f.fail(err)
	return n
}

func (f *fields) fail(err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("key %s is not stock of this service, set the stock again: %w", f.key, err)
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// maxSettled bounds the ids of a SKU that are remembered as absent: any client may ask, and each id takes some 100
// bytes for KeepOrders.
const maxSettled = 100_000

var errTooManySettled = fmt.Errorf("%w: %d orders of this SKU are settled already", service.ErrUndecided, maxSettled)

// idempotentFailure reports a failed request that is safe to repeat. It matches lock.ErrDown, or what ended ctx, and
// not service.ErrOutcomeUnknown.
func idempotentFailure(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return ctxEnded(ctx, doing)
	}
	return lock.Down(doing, errors.New(err.Error()))
}
