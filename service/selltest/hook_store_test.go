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

// A revocableLock is a lock within this process whose leases the test can take away. Its fences grow.
type revocableLock struct {
	queue lock.Queue
	asked chan struct{} // told of every Acquire, if not nil
	fence lock.Fence
	evict context.CancelCauseFunc // the current holder
}

func (l *revocableLock) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if l.asked != nil {
		l.asked <- struct{}{}
	}
	if err := l.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	l.fence++
	lease, evict := lock.NewLease(key, l.fence, func(context.Context) error {
		l.queue.Leave(key)
		return nil
	})
	l.evict = evict
	return lease, nil
}
