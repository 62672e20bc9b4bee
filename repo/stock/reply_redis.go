package stock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/service"
)

// run runs a script of this package. It returns the reply, whose first element is "ok", or the error for a refusal.
func (r *Redis) run(
	ctx context.Context, doing string, s *redisscript.Script, keys []string, args ...any,
) ([]any, error) {
	reply, err := r.Run(ctx, doing, s, keys, args...)
	if err != nil {
		return nil, err
	}
	return reply, refusal(doing, keys[0], reply)
}

// refusal returns the error for the reply of a script.
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

// fields are the strings of a reply. err is the error of the first one that could not be parsed.
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

// fail sets err to err, unless err is already set.
func (f *fields) fail(err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("key %s is not stock of this service, set the stock again: %w", f.key, err)
	}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }

// stock returns the stock with the fields f, in the order quantity, initial, sold, version, epoch, fence, guard.
func (f *fields) stock(sku service.SKU) service.Stock {
	return service.Stock{
		SKU: sku, Quantity: f.integer(0), Initial: f.integer(1), Sold: f.integer(2),
		Version: f.natural(3), Epoch: f.natural(4), Fence: f.natural(5), Guard: f.text(6),
	}
}
