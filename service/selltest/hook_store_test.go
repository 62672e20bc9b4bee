package selltest

import (
	"context"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A hookStore is a real store in whose middle the test does something.
type hookStore struct {
	shop
	read  func(context.Context)                        // after a read
	write func(ctx context.Context, before bool) error // before and after a write; an error before it takes its place
}

func (m *hookStore) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	stock, err := m.shop.Read(ctx, sku)
	if m.read != nil && err == nil {
		m.read(ctx)
	}
	return stock, err
}

func (m *hookStore) Write(ctx context.Context, o service.Order) error {
	if m.write == nil {
		return m.shop.Write(ctx, o)
	}
	if err := m.write(ctx, true); err != nil {
		return err
	}
	if err := m.shop.Write(ctx, o); err != nil {
		return err
	}
	return m.write(ctx, false)
}

// A fencedLock is a lock within this process. Its fences grow.
type fencedLock struct {
	queue lock.Queue
	fence lock.Fence
}

func (l *fencedLock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := l.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	l.fence++
	lease, _ := lock.NewLease(key, l.fence, func(context.Context) error {
		l.queue.Leave(key)
		return nil
	})
	return lease, nil
}
