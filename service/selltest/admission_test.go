package selltest

import (
	"context"
	"errors"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// An admitting store is a real one that notes how its calls may queue in front of it.
type admitting struct {
	shop
	read, write context.Context
}

func (a *admitting) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	a.read = ctx
	return a.shop.Read(ctx, sku)
}

func (a *admitting) Write(ctx context.Context, o service.Order) error {
	a.write = ctx
	return a.shop.Write(ctx, o)
}

func (a *admitting) Swap(ctx context.Context, o service.Order) error {
	a.write = ctx
	return a.shop.Swap(ctx, o)
}

func (a *admitting) Deduct(ctx context.Context, o service.Order) (service.Order, error) {
	a.write = ctx
	return a.shop.Deduct(ctx, o)
}

// Whoever holds a lock, or has read what it writes, has begun: a full store does not refuse it. A newcomer may be
// refused, and its place in the store's queue goes with its client.
func TestAdmissionOfASale(t *testing.T) {
	for name, row := range map[string]struct {
		seller      service.Seller
		read, write bool // begun
	}{
		"under a lock": {service.UnderLock(&local.Mutex{}), true, true},
		"fenced":       {service.UnderLock(&fencedLock{}), true, true},
		"optimistic":   {service.Optimistically, false, true},
		"atomic":       {service.Atomically, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			store := &admitting{shop: redisStore(t)}
			s := stage(t, row.seller, store)
			client, leave := context.WithCancel(t.Context())
			defer leave()
			store.read, store.write = t.Context(), t.Context()
			if _, err := s.sell(client); err != nil {
				t.Fatal(err)
			}
			read, write := service.Begun(store.read), service.Begun(store.write)
			if read != row.read || write != row.write {
				t.Errorf("begun: read %t, write %t; want %t, %t", read, write, row.read, row.write)
			}
			newcomer := store.write
			if name == "optimistic" {
				newcomer = store.read
			}
			if service.Begun(newcomer) {
				return
			}
			wait, done := service.Waiting(newcomer)
			defer done()
			if leave(); wait.Err() == nil {
				t.Error("the wait of a newcomer does not end with its client")
			}
		})
	}
}

// An undone store is one whose transaction is rolled back at the end.
type undone struct {
	shop
	err error
}

type unwritten struct{ service.Store }

func (unwritten) Write(context.Context, service.Order) error { return nil }

func (u undone) Transact(
	ctx context.Context, _ service.SKU, _ bool, do func(context.Context, service.Store) error,
) error {
	return errors.Join(do(ctx, unwritten{u.shop}), u.err)
}

// What a transaction wrote is gone with it, whatever the error.
func TestATransactionThatFailsWasNotSold(t *testing.T) {
	s := stage(t, service.InTransaction, undone{redisStore(t), lock.ErrLost})
	r, err := s.sell(t.Context())
	if !errors.Is(err, lock.ErrLost) {
		t.Errorf("%+v, %v; want no order", r, err)
	}
	s.sold(t, 0)
}

// Only a lost lease is no failure of a sale whose order was written.
func TestAnErrorAfterTheWriteIsTold(t *testing.T) {
	broken := errors.New("the seller broke")
	sell := service.UnderLock(&local.Mutex{})
	s := stage(t, func(ctx context.Context, store service.Shop, sale *service.Sale) error {
		return errors.Join(sell(ctx, store, sale), broken)
	}, redisStore(t))
	_, err := s.sell(t.Context())
	fails(t, err, all(broken))
	s.sold(t, 1)
}
