package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/loadtest"
)

// judgeLimit bounds the time for reading the stores.
const judgeLimit = 5 * time.Minute

// rest is how long a stock must stay unchanged before it is judged. Requests that the customer gave up may still be
// running in an instance.
const rest = time.Second

// judge compares all replies with the store.
func (r *run) judge(ctx context.Context) error {
	results := make([]Result, len(r.subjects))
	failed := make([]error, len(r.subjects))
	var all sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, l := range r.subjects {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i], failed[i] = r.judgeSubject(ctx, l)
		})
	}
	all.Wait()
	r.report.Results = results
	return errors.Join(failed...)
}

func (r *run) judgeSubject(ctx context.Context, l *subject) (Result, error) {
	out := newResult(l)
	items := l.all()
	accounts, err := r.accounts(ctx, l, items)
	if err != nil {
		return out, fmt.Errorf("%s on %s: %w", l.Name, l.store, err)
	}
	for i, s := range items {
		if untouched(s, accounts[i]) {
			continue
		}
		evidence := loadtest.Evidence{Records: s.records, Accounts: accounts[i : i+1], Promise: l.Promise}
		out.add(s, loadtest.Judge(evidence))
	}
	return out, nil
}

// untouched reports whether no unit of an item was sold and its stock is unchanged. Then there is nothing to judge.
func untouched(s *item, a loadtest.Account) bool {
	for _, r := range s.records {
		if r.Outcome == loadtest.Accepted || r.Outcome == loadtest.SoldOut {
			return false
		}
	}
	return len(a.Orders) == 0 && a.After.Quantity == s.before.Quantity && a.After.Version == s.before.Version &&
		a.After.Epoch == s.before.Epoch
}

// accounts reads stock and orders of all items of a subject, until two successive readings are equal.
func (r *run) accounts(ctx context.Context, l *subject, items []*item) ([]loadtest.Account, error) {
	before, err := r.look(ctx, l, items)
	for err == nil {
		if loadtest.Sleep(ctx, rest) != nil {
			return nil, fmt.Errorf("its stock keeps changing: %w", context.Cause(ctx))
		}
		var now []loadtest.Account
		if now, err = r.look(ctx, l, items); err == nil && same(before, now) {
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

func (r *run) look(ctx context.Context, l *subject, items []*item) ([]loadtest.Account, error) {
	var list []loadtest.Account
	for _, s := range items {
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

// read calls do for one instance after the other until it succeeds. It tries again because on a loaded computer a
// server may seem down.
func (r *run) read(ctx context.Context, do func(*loadtest.Client) error) error {
	for n := 0; ; n++ {
		err := do(r.fleet.instances[n%len(r.fleet.instances)].client)
		if err == nil || loadtest.Sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
