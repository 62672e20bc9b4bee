package selltest

import (
	"context"
	"testing"

	"example.com/stock/service"
)

// A client that goes away inside the critical section changes nothing: a write that has begun is finished.
func TestClientGoesAwayInsideTheCriticalSection(t *testing.T) {
	t.Parallel()
	for _, in := range settings() {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			store := in.store(t)
			seller := in.seller(t)
			s := stage(t, func(inside context.Context, store service.Store, sale *service.Sale) error {
				return seller(inside, leaving(store, leave), sale)
			}, store)
			if _, err := s.sell(ctx); err != nil {
				t.Errorf("err = %v, want the order written", err)
			}
			if ctx.Err() == nil {
				t.Error("the client never left: the test proves nothing")
			}
			s.sold(t, 1)
		})
	}
}

// leaving is store, with a client who leaves as soon as the critical section is entered.
func leaving(store service.Store, leave func()) service.Store {
	d := leavingStore{store, leave}
	if tx, ok := store.(service.Transactor); ok {
		return &leavingTransactor{d, tx}
	}
	return &d
}

type leavingStore struct {
	service.Store
	leave func()
}

func (d leavingStore) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	stock, err := d.Store.Read(ctx, sku)
	d.leave()
	return stock, err
}

func (d leavingStore) Batch(ctx context.Context, orders []service.Order) ([]service.BatchResult, error) {
	d.leave()
	return d.Store.(service.Batcher).Batch(ctx, orders)
}

func (d leavingStore) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	d.leave()
	return d.Store.(service.Deductor).Deduct(ctx, o)
}

type leavingTransactor struct {
	leavingStore
	tx service.Transactor
}

func (d leavingTransactor) Transact(
	ctx context.Context,
	about service.SKU,
	once bool,
	do func(context.Context, service.Store) error,
) error {
	return d.tx.Transact(
		ctx, about, once,
		func(ctx context.Context, tx service.Store) error { return do(ctx, lastly{tx, d.leave}) },
	)
}

// lastly leaves before the write: to leave after the read would be too early, since the row counts as locked only
// when its Read has returned to the sale.
type lastly struct {
	service.Store
	leave func()
}

func (l lastly) Write(ctx context.Context, o service.Order) error {
	l.leave()
	return l.Store.Write(ctx, o)
}
