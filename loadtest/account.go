package loadtest

import (
	"context"
	"errors"
	"time"
)

// An Account is what the store said of one SKU before and after a run: the evidence that does not come from replies.
type Account struct {
	Store  string  `json:"store"`  // as in the records; may be empty for the service's default
	Before Stock   `json:"before"` // as it was set
	After  *Stock  `json:"after"`  // nil: it could not be read
	Orders []Order `json:"-"`      // of the epoch, in the order in which they were written
	// Complete: Orders are all orders that there were when the stock was as in After.
	Complete bool   `json:"complete"`
	Gap      string `json:"gap,omitempty"` // why it is not complete
}

// account reads the final state of before's SKU. Stock and orders are read one after the other, so it reads until the stock's version
// is the same before and after the orders. If unsure, it first waits until the version has been at rest for a while; a sale
// that an instance finishes later still is not seen.
func (c *Client) account(ctx context.Context, before Stock, store string, unsure bool) Account {
	a := Account{Store: store, Before: before}
	now, err := c.Stock(ctx, store, before.SKU)
	if unsure {
		now, err = c.atRest(ctx, now, err)
	}
	for err == nil {
		a.After = new(now)
		if a.Orders, err = c.Orders(ctx, store, before.SKU); err != nil {
			break
		}
		then := now
		if now, err = c.Stock(ctx, store, before.SKU); err == nil && now.Version == then.Version && now.Epoch == then.Epoch {
			a.Complete = true
			return a
		}
	}
	a.Gap = err.Error()
	return a
}

// atRest reads stock until two looks apart by quiet agree, or five looks were taken: a SKU that others sell from never rests.
func (c *Client) atRest(ctx context.Context, now Stock, err error) (Stock, error) {
	for range 5 {
		if err != nil {
			return now, err
		}
		timer := time.NewTimer(quiet)
		select {
		case <-ctx.Done():
			timer.Stop()
			return now, errors.Join(errors.New("wait for the stock to be at rest"), ctx.Err())
		case <-timer.C:
		}
		then := now
		if now, err = c.Stock(ctx, then.Store, then.SKU); err == nil && now.Version == then.Version {
			return now, nil
		}
	}
	return now, err
}
