package repo

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service"
)

//go:embed refuse.lua
var refuseLua string

//go:embed write.lua
var writeLua string

//go:embed deduct.lua
var deductLua string

//go:embed gather.lua
var gatherLua string

//go:embed set.lua
var setLua string

//go:embed orders.lua
var ordersLua string

//go:embed settle.lua
var settleLua string

//go:embed find.lua
var findLua string

// A script is Lua source. What is sent is its digest; Redis keeps the source.
type script struct{ source, digest string }

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source, hex.EncodeToString(sum[:])}
}

var (
	writeScript  = newScript(refuseLua + writeLua)
	deductScript = newScript(refuseLua + deductLua)
	gatherScript = newScript(gatherLua)
	setScript    = newScript(setLua)
	ordersScript = newScript(ordersLua)
	settleScript = newScript(settleLua)
	findScript   = newScript(findLua)
)

// once is a command that is sent one time. go-redis repeats a command whose reply was lost, by default three times, on a new connection:
// a script that had run would sell twice. And where the last repetition is refused by a server that has just stopped, its
// error says "not sent", though the first may have been written. A script here is not repeated, so that its error can be trusted:
// what was lost is lock.ErrDown or service.ErrOutcomeUnknown, and the caller may look the order up by its id.
//
// The alternative, to remember the ids of orders and let repetitions be, costs two commands and some 100 bytes per order, and the
// outcome would still be unknown when all of them are lost.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis.
func (once) NoRetry() bool { return true }

// The pauses before a script that a cluster has refused is sent again: it has done nothing. The move of a slot takes
// milliseconds for each batch of keys; of the many that may ask meanwhile each waits for its own.
const (
	movingPause = time.Millisecond
	movingMost  = 50 * time.Millisecond
)

// run runs s once and turns a refusal into its error. The reply's first element is "ok".
//
// While a cluster is moving the slot it waits, up to the end of ctx.
func (r *Redis) run(ctx context.Context, doing string, s script, keys []string, args ...any) ([]any, error) {
	leave, err := r.enter(ctx, doing, keys[0])
	if err != nil {
		return nil, err
	}
	defer leave()
	var moving error
	for most := movingPause; ; most = min(2*most, movingMost) {
		reply, err := r.send(ctx, s, keys, args)
		if movingSlots(err) {
			moving = err
		}
		switch {
		case err == nil:
			r.heard(nil)
			return reply, refusal(doing, keys[0], reply)
		case movingSlots(err) && pause(ctx, most/2+rand.N(most)):
		case sent(err):
			return nil, unknown(doing, err)
		case moving != nil && errors.Is(err, ctx.Err()):
			return nil, redisFault(ctx, doing, keys[0], moving) // that is what the time was spent on
		default:
			return nil, redisFault(ctx, doing, keys[0], err)
		}
	}
}

// pause is false if ctx ended before it was over.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (r *Redis) send(ctx context.Context, s script, keys []string, args []any) ([]any, error) {
	reply, err := r.eval(ctx, "evalsha", s.digest, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// Redis has restarted or dropped its scripts. It did nothing, so this is no repetition.
		return r.eval(ctx, "eval", s.source, keys, args)
	}
	return reply, err
}

func (r *Redis) eval(ctx context.Context, command, body string, keys []string, args []any) ([]any, error) {
	all := make([]any, 0, 3+len(keys)+len(args))
	all = append(all, command, body, len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	cmd := redis.NewCmd(ctx, append(all, args...)...)
	cmd.SetFirstKeyPos(3)
	// The error is cmd's too, and Slice returns it.
	_ = r.client.Process(ctx, once{cmd})
	return cmd.Slice()
}

// refusal is the error that a script's reply stands for.
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
	case "full":
		return errTooManySettled
	case "no orders":
		return fmt.Errorf("%s: key %s:orders is not the orders of this epoch: they are lost,"+
			" or of an earlier version of this service; set the stock again", doing, key)
	case "guarded":
		return &service.GuardError{Guard: f.text(1)}
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
