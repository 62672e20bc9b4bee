package repo

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"

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

// run runs s once and turns a refusal into its error. The reply's first element is "ok".
func (r *Redis) run(ctx context.Context, doing string, s script, sku service.SKU, args ...any) ([]any, error) {
	leave, err := r.enter(ctx, doing, sku)
	if err != nil {
		return nil, err
	}
	defer leave()
	reply, err := r.eval(ctx, "evalsha", s.digest, sku, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		// Redis has restarted or dropped its scripts. It did nothing, so this is no repetition.
		reply, err = r.eval(ctx, "eval", s.source, sku, args)
	}
	if err != nil {
		if sent(err) {
			return nil, unknown(doing, err)
		}
		return nil, redisFault(ctx, doing, sku, err)
	}
	r.heard(nil)
	return reply, refusal(doing, sku, reply)
}

func (r *Redis) eval(ctx context.Context, command, body string, sku service.SKU, args []any) ([]any, error) {
	cmd := redis.NewCmd(ctx, append([]any{command, body, 1, stockKey(sku)}, args...)...)
	cmd.SetFirstKeyPos(3)
	// The error is cmd's too, and Slice returns it.
	_ = r.client.Process(ctx, once{cmd})
	return cmd.Slice()
}

// refusal is the error that a script's reply stands for.
func refusal(doing string, sku service.SKU, reply []any) error {
	f := fields{key: stockKey(sku), values: reply}
	switch word := f.text(0); word {
	case "ok":
		return nil
	case "unknown sku":
		return unknownSKU(sku)
	case "reset":
		return service.ErrStockReset
	case "guarded":
		return &service.GuardError{Guard: f.text(1)}
	case "changed":
		return service.ErrConflict
	case "stale fence":
		return staleFence(f.text(1))
	case "sold out":
		left := f.integer(1)
		return errors.Join(f.err, &service.SoldOutError{Remaining: left})
	default:
		return fmt.Errorf("%s: script answered %q", doing, word)
	}
}
