package selltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// A fence alone does not help here: the later holder has read, and has not written, when the one that was paused
// past its lease writes. The later one would overwrite that. It finds the version changed instead, and reads again.
func TestSegmentedHolderIsLate(t *testing.T) {
	t.Parallel()
	var l revocableLock
	store := redisStore(t)
	p := &paused{Redis: store, late: make(chan struct{}), next: make(chan struct{}), done: make(chan struct{})}
	s := segmentedOn(t, p, 10, segmented(&l, 1))[0]
	late := make(chan error, 1)
	go func() {
		r, err := s.sell(t.Context(), lab(service.Lab{IgnoreLoss: true}))
		if err == nil && !r.LeaseLost {
			err = errors.New("it was not late: this proves nothing")
		}
		late <- err
	}()
	<-p.late
	l.evict(lock.ErrExpired)
	l.queue.Leave(string(s.sku) + "#1") // the server gives the key away though its holder has not let go
	r, err := s.sell(t.Context())
	if err != nil || r.Tries != 2 {
		t.Errorf("%d tries, %v; want a second after the late write", r.Tries, err)
	}
	if err := <-late; err != nil {
		t.Error(err)
	}
	if stock, err := s.Stock(t.Context(), "", s.sku); err != nil || stock.Quantity != 8 || stock.Sold != 2 {
		t.Errorf("%+v, %v; want 8 left and 2 sold", stock, err)
	}
}

// In paused the first write waits until the second is about to happen, and the second until the first has.
type paused struct {
	*stock.Redis
	mu               sync.Mutex
	writes           int
	late, next, done chan struct{}
}

func (p *paused) Swap(ctx context.Context, o service.Order) error {
	p.mu.Lock()
	p.writes++
	n := p.writes
	p.mu.Unlock()
	switch n {
	case 1:
		defer close(p.done)
		close(p.late)
		<-p.next
	case 2:
		close(p.next)
		<-p.done
	}
	return p.Redis.Swap(ctx, o)
}

// Two strategies that know nothing of each other's locks do not sell from the same stock, whichever came first, and
// however the stock is split.
func TestSegmentedIsGuarded(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		s := segmentedOn(t, store, 20, segmented(&local.Mutex{}, 2))[0]
		s.Strategies["other"] = service.StrategyConfig{Seller: segmented(&local.Mutex{}, 2)}
		s.Strategies["plain"] = service.StrategyConfig{Seller: service.UnderLock(&local.Mutex{})}
		s.Strategies["swap"] = service.StrategyConfig{Seller: service.Optimistically(service.OptimisticOptions{})}
		s.Strategies["atomic"] = service.StrategyConfig{Seller: service.Atomically}
		others := []string{"other", "plain", "swap", "atomic"}
		if _, ok := store.(service.Transactor); ok {
			s.Strategies["row"] = service.StrategyConfig{Seller: service.InTransaction}
			others = append(others, "row")
		}
		by := func(strategy string) func(*service.Request) {
			return func(r *service.Request) { r.Strategy = strategy }
		}
		for range 12 {
			if _, err := s.sell(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, other := range others {
			// As many as there are in all, but in no part: it must not look as if it were sold out.
			_, err := s.sell(t.Context(), by(other), func(r *service.Request) { r.Quantity = 8 })
			fails(t, err, all(service.ErrGuarded), service.ErrSoldOut)
		}
		for _, first := range []string{"plain", "swap", "atomic"} {
			if _, err := s.SetStock(t.Context(), "", s.sku, 20); err != nil {
				t.Fatal(err)
			}
			if _, err := s.sell(t.Context(), by(first)); err != nil {
				t.Errorf("%s after setting: %v", first, err)
			}
			_, err := s.sell(t.Context())
			fails(t, err, all(service.ErrGuarded))
			if err == nil || !strings.Contains(err.Error(), first) {
				t.Errorf("err = %v, want one that names %s", err, first)
			}
		}
	})
}
