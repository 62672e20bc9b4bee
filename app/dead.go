package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A DeadLetter is an event that the relay has parked until an operator decides.
type DeadLetter = order.DeadLetter

// DeadLetters are the events that the relay of a store has parked.
type DeadLetters struct {
	app  *App
	dead order.DeadLetters
}

// OpenDeadLetters opens the default store. The caller must close the result.
func OpenDeadLetters(cfg Config, log *slog.Logger) (*DeadLetters, error) {
	a := newApp(cfg, "", log)
	books, err := a.openLedger()
	if err != nil {
		return nil, errors.Join(err, a.close())
	}
	return &DeadLetters{a, books}, nil
}

func (d *DeadLetters) Close() error { return d.app.close() }

// Each calls do for every dead letter, in order of the SKUs, and returns the first error.
func (d *DeadLetters) Each(ctx context.Context, do func(DeadLetter) error) error {
	const page = 200
	for after := service.SKU(""); ; {
		letters, err := d.dead.Parked(ctx, after, page)
		if err != nil {
			return failure("no-letters", "why", err)
		}
		for _, letter := range letters {
			if err := do(letter); err != nil {
				return err
			}
			after = letter.SKU
		}
		if len(letters) < page {
			return nil
		}
	}
}

// Retry makes the relay resend an event. name is SKU/NUMBER.
func (d *DeadLetters) Retry(ctx context.Context, name string) error {
	return d.decide(ctx, name, order.Resend)
}

// Skip makes the relay skip the event for good.
func (d *DeadLetters) Skip(ctx context.Context, name string) error {
	return d.decide(ctx, name, order.Skip)
}

// RetryAll calls Retry for every undecided dead letter, and done with the name of each.
func (d *DeadLetters) RetryAll(ctx context.Context, done func(name string)) error {
	return d.Each(ctx, func(letter DeadLetter) error {
		if letter.Decision != order.Undecided {
			return nil
		}
		err := d.dead.Decide(ctx, letter.SKU, letter.Number, order.Resend)
		if errors.Is(err, order.ErrNoDeadLetter) {
			return nil // another operator decided meanwhile
		}
		if err == nil {
			done(fmt.Sprintf("%s/%d", letter.SKU, letter.Number))
		}
		return err
	})
}

func (d *DeadLetters) decide(ctx context.Context, name string, v order.Decision) error {
	text, digits, _ := strings.Cut(name, "/")
	sku, err1 := service.ParseSKU(text)
	number, err2 := strconv.ParseUint(digits, 10, 64)
	if err1 != nil || err2 != nil {
		return failure("no-event", "name", quote(name))
	}
	return d.dead.Decide(ctx, sku, number, v)
}
