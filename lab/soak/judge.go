package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// judgeLimit bounds the reading of the store.
const judgeLimit = 5 * time.Minute

// rest is how long a stock must not have changed before it is judged. All requests have ended by then, but for
// those that their sender gave up.
const rest = time.Second

// judge compares all replies with the store.
func (r *run) judge(ctx context.Context) error {
	lanes := make([]Lane, len(r.lanes))
	failed := make([]error, len(r.lanes))
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, l := range r.lanes {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			lanes[i], failed[i] = r.judgeLane(ctx, l)
		})
	}
	all.Wait()
	r.report.Lanes = lanes
	return errors.Join(failed...)
}

func (r *run) judgeLane(ctx context.Context, l *lane) (Lane, error) {
	out := newLane(l)
	shelves := l.all()
	accounts, err := r.accounts(ctx, l, shelves)
	if err != nil {
		return out, fmt.Errorf("%s on %s: %w", l.Name, l.store, err)
	}
	for i, s := range shelves {
		if untouched(s, accounts[i]) {
			continue
		}
		out.add(
			s,
			loadtest.Judge(loadtest.Evidence{Records: s.records, Accounts: accounts[i : i+1], Promise: l.Promise}),
		)
	}
	return out, nil
}

// untouched is true of a shelf from which nothing was sold, and nothing is gone: there is nothing to judge.
func untouched(s *shelf, a loadtest.Account) bool {
	for _, r := range s.records {
		if r.Outcome == loadtest.Accepted || r.Outcome == loadtest.SoldOut {
			return false
		}
	}
	return len(a.Orders) == 0 && a.After.Quantity == s.before.Quantity && a.After.Version == s.before.Version &&
		a.After.Epoch == s.before.Epoch
}

// accounts reads stock and orders of all shelves of a lane, until two looks some time apart have seen the same.
func (r *run) accounts(ctx context.Context, l *lane, shelves []*shelf) ([]loadtest.Account, error) {
	before, err := r.look(ctx, l, shelves)
	for err == nil {
		if loadtest.Sleep(ctx, rest) != nil {
			return nil, fmt.Errorf("its stock does not come to rest: %w", context.Cause(ctx))
		}
		var now []loadtest.Account
		if now, err = r.look(ctx, l, shelves); err == nil && same(before, now) {
			return now, nil
		}
		before = now
	}
	return nil, err
}

func same(a, b []loadtest.Account) bool {
	for i := range a {
		if a[i].After.Version != b[i].After.Version || a[i].After.Epoch != b[i].After.Epoch ||
			len(a[i].Orders) != len(b[i].Orders) {
			return false
		}
	}
	return true
}

func (r *run) look(ctx context.Context, l *lane, shelves []*shelf) ([]loadtest.Account, error) {
	var list []loadtest.Account
	for _, s := range shelves {
		a := loadtest.Account{Store: l.store, Before: s.before, After: new(loadtest.Stock), Complete: true}
		err := r.read(ctx, func(c *loadtest.Client) (err error) {
			if *a.After, err = c.Stock(ctx, l.store, s.before.SKU); err == nil {
				a.Orders, err = c.Orders(ctx, l.store, s.before.SKU)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

// read asks one instance after the other until one answers: to read again changes nothing, and on a loaded computer
// a server may seem down.
func (r *run) read(ctx context.Context, ask func(*loadtest.Client) error) error {
	for n := 0; ; n++ {
		err := ask(r.fleet.instances[n%len(r.fleet.instances)].client)
		if err == nil || loadtest.Sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
