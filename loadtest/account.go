package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"example.com/stock/internal/words"
)

// An Account holds the store's stock and orders of one SKU before and after a run, evidence that does not come from
// replies.
type Account struct {
	Store  string  `json:"store"`  // as in the records; may be empty for the service's default
	Before Stock   `json:"before"` // as it was set
	After  *Stock  `json:"after"`  // nil: it could not be read
	Orders []Order `json:"-"`      // of the epoch, in the order of writing
	// Complete reports whether Orders has every order up to the moment when the stock was After.
	Complete bool       `json:"complete"`
	Gap      words.Text `json:"gap,omitzero"`       // why it is not complete
	LookedAt time.Time  `json:"looked_at,omitzero"` // when After was read, by the clock of the load generator
	// Undone has the orders of an earlier look that are missing from Orders, or belong to another sale there.
	Undone []Order `json:"-"`
}

// again returns the account after a second look. If the second look is incomplete, or the stock was set since, it
// proves nothing about the run, and again returns a.
func (a Account) again(second Account) Account {
	if second.After == nil || second.After.Epoch != second.Before.Epoch ||
		!second.Complete && !a.Before.Unlisted {
		return a
	}
	now := make(map[string]*Order, len(second.Orders))
	for i := range second.Orders {
		now[second.Orders[i].OrderID] = &second.Orders[i]
	}
	for i := range a.Orders {
		o := &a.Orders[i]
		if n := now[o.OrderID]; o.Epoch == a.Before.Epoch &&
			(n == nil || n.Quantity != o.Quantity || n.RequestID != o.RequestID) {
			second.Undone = append(second.Undone, *o)
		}
	}
	return second
}

// lookers is the number of SKUs that are read concurrently, because waiting for one to come to rest takes a second or
// more.
const lookers = 32

// accounts reads the final state of each SKU.
func accounts(ctx context.Context, inv Inventory, before []Stock, store string, records []Record) []Account {
	unsure := make(map[string]bool)
	for i := range records {
		unsure[records[i].SKU] = unsure[records[i].SKU] || records[i].Outcome == Unknown
	}
	list, until := make([]Account, len(before)), time.Now().Add(comeback)
	var all errgroup.Group
	all.SetLimit(lookers)
	for i := range before {
		all.Go(func() error {
			list[i] = account(ctx, inv, before[i], store, unsure[before[i].SKU], until)
			return nil
		})
	}
	_ = all.Wait()
	return list
}

// comeback is how long reads of the final state are retried while a server is down, for all SKUs together.
const comeback = 5 * time.Second

// account calls lookOnce while a server is down, until the given time. Without the orders, a sale by another client
// would look like a lost unit.
func account(
	ctx context.Context, inv Inventory, before Stock, store string, unsure bool, until time.Time,
) (a Account) {
	whileRefused(ctx, until, func() (err error) {
		a, err = lookOnce(ctx, inv, before, store, unsure)
		return err
	}, "backend_down")
	return a
}

// whileRefused calls try while it is refused with one of these problems, until the given time, because a restarted
// server is not up for all instances at once.
func whileRefused(ctx context.Context, until time.Time, try func() error, problems ...string) {
	for {
		var problem *Problem
		later := errors.As(try(), &problem) && slices.Contains(problems, problem.Name())
		if !later || time.Now().After(until) || Sleep(ctx, comeback/20) != nil {
			return
		}
	}
}

// lookOnce reads the final state of before's SKU. It reads stock, orders and stock, until both stocks have the same
// quantity and version. If unsure is set, it first waits until the version stays unchanged. It does not see a sale that
// an instance finishes even later.
func lookOnce(ctx context.Context, inv Inventory, before Stock, store string, unsure bool) (a Account, err error) {
	a = Account{Store: store, Before: before, LookedAt: time.Now().UTC()}
	now, err := inv.Stock(ctx, store, before.SKU)
	if unsure {
		now, err = atRest(ctx, inv, now, err)
	}
	for err == nil {
		a.After, a.LookedAt = new(now), time.Now().UTC()
		if a.Orders, err = inv.Orders(ctx, store, before.SKU); err != nil {
			break
		}
		then := now
		if now, err = inv.Stock(ctx, store, before.SKU); err == nil && now.Version == then.Version &&
			now.Epoch == then.Epoch && now.Quantity == then.Quantity {
			if a.Complete = !before.Unlisted; !a.Complete {
				a.Gap = say("gap.unlisted")
			}
			return a, nil
		}
	}
	a.Gap = words.Of(err)
	return a, err
}

// atRest reads the stock at intervals of quiet until two successive reads agree. It gives up after five, because a SKU
// that others sell from never comes to rest.
func atRest(ctx context.Context, inv Inventory, now Stock, err error) (Stock, error) {
	for range 5 {
		if err != nil {
			return now, err
		}
		if err := Sleep(ctx, quiet); err != nil {
			return now, fmt.Errorf("wait for the stock to be at rest: %w", err)
		}
		then := now
		if now, err = inv.Stock(ctx, then.Store, then.SKU); err == nil && now.Version == then.Version {
			return now, nil
		}
	}
	return now, err
}

// A settler is a target that can settle an order: decide finally whether it exists. In other targets an unknown outcome
// may change even after the stock has come to rest.
type settler interface {
	Settle(ctx context.Context, store, sku, orderID string) error
}

// settleUnknown settles every order whose outcome the target reported as unknown, so that the accounts show its final
// state. It retries while a server is down or an order is undecided, for comeback in all. Orders that are still
// undecided are judged by the accounts alone.
func settleUnknown(ctx context.Context, c Target, store string, records []Record) {
	s, can := c.(settler)
	if !can {
		return
	}
	until := time.Now().Add(comeback)
	var all errgroup.Group
	all.SetLimit(lookers)
	for i := range records {
		if r := &records[i]; r.Outcome == Unknown && r.Problem == "outcome_unknown" && r.OrderID != "" {
			all.Go(func() error {
				whileRefused(ctx, until, func() error {
					return s.Settle(ctx, store, r.SKU, r.OrderID)
				}, "backend_down", "undecided")
				return nil
			})
		}
	}
	_ = all.Wait()
}
