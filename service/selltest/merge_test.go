package selltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/service"
)

// A counter is stock in memory, which is sold from in batches. It is for the order in which things happen, in a bubble;
// what real stores do is tested with them.
type counter struct {
	shop
	mu      sync.Mutex
	stock   service.Stock
	batches []string          // request ids of each, in their order
	during  func(n int) error // called in the middle of the n-th batch, from 1
	reads   int
}

func (c *counter) Read(context.Context, service.SKU) (service.Stock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads++
	return c.stock, nil
}

func (c *counter) Set(_ context.Context, sku service.SKU, quantity int64) (service.Stock, error) {
	return c.SetIf(context.Background(), sku, quantity, service.Condition{})
}

func (c *counter) SetIf(
	_ context.Context, sku service.SKU, quantity int64, _ service.Condition,
) (service.Stock, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stock = service.Stock{
		SKU: sku, Quantity: quantity, Initial: quantity, Version: c.stock.Version + 1, Epoch: c.stock.Epoch + 1,
	}
	return c.stock, nil
}

func (c *counter) Batch(_ context.Context, orders []service.Order) ([]service.BatchResult, error) {
	c.mu.Lock()
	var ids []string
	for _, o := range orders {
		ids = append(ids, o.RequestID)
	}
	c.batches = append(c.batches, strings.Join(ids, " "))
	n := len(c.batches)
	c.mu.Unlock()
	if c.during != nil {
		if err := c.during(n); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	results := make([]service.BatchResult, len(orders))
	for i, o := range orders {
		if results[i].Order = o; o.Quantity > c.stock.Quantity {
			results[i].Err = &service.SoldOutError{Remaining: c.stock.Quantity}
			continue
		}
		o.Read, o.Version, o.Epoch = c.stock.Quantity, c.stock.Version, c.stock.Epoch
		c.stock.Quantity -= o.Quantity
		c.stock.Version++
		o.Remaining = c.stock.Quantity
		results[i].Order = o
	}
	return results, nil
}

// A crowd is sales that were sent one after the other.
type crowd struct {
	*scene
	t     *testing.T
	all   sync.WaitGroup
	mu    sync.Mutex
	sold  map[string]service.Receipt
	errs  map[string]error
	leave map[string]context.CancelCauseFunc
}

func crowdOf(t *testing.T, s *scene) *crowd {
	return &crowd{
		scene: s, t: t, sold: map[string]service.Receipt{}, errs: map[string]error{},
		leave: map[string]context.CancelCauseFunc{},
	}
}

// come sends a sale, in a bubble: it has joined the queue, or is answered, when come returns.
func (c *crowd) come(id string, change ...func(*service.Request)) {
	c.send(id, change...)
	synctest.Wait()
}

func (c *crowd) send(id string, change ...func(*service.Request)) {
	ctx, cancel := context.WithCancelCause(c.t.Context())
	c.leave[id] = cancel
	c.all.Go(func() {
		defer cancel(nil)
		defer func() {
			if p := recover(); p != nil {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.errs[id] = fmt.Errorf("%w: %v", errPanicked, p)
			}
		}()
		r, err := c.sell(ctx, append(change, func(r *service.Request) { r.RequestID = id })...)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.errs[id] = err; err == nil {
			c.sold[id] = r
		}
	})
}

var errPanicked = errors.New("panicked")

// refused returns how many sales were refused because the queue is full.
func (c *crowd) refused() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.errs {
		if errors.Is(err, lock.ErrOverloaded) {
			n++
		}
	}
	return n
}

// answer returns what became of a sale, and whether it was answered.
func (c *crowd) answer(id string) (answered bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err, answered = c.errs[id]
	return answered, err
}

func quantity(n int64) func(*service.Request) {
	return func(r *service.Request) { r.Quantity = n }
}

// merging runs a test in a bubble with a merged strategy on a counter whose first batch stays under way until it is let
// go.
func merging(t *testing.T, o service.MergeOptions, test func(c *crowd, store *counter, letGo func())) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		store := &counter{}
		store.during = func(n int) error {
			if n == 1 {
				<-first
			}
			return nil
		}
		s := stage(t, service.Merged(o), store)
		c := crowdOf(t, s)
		letGo := sync.OnceFunc(func() { close(first); synctest.Wait() })
		test(c, store, letGo)
		letGo()
		c.all.Wait()
	})
}

// A batch is what came while the last one was under way, in the order of arrival, and at most the limit.
func TestMergedInOrderOfArrival(t *testing.T) {
	merging(t, service.MergeOptions{Limit: 3}, func(c *crowd, store *counter, letGo func()) {
		for i := range 8 {
			c.come(fmt.Sprint(i))
		}
		letGo()
		if want := []string{"0", "1 2 3", "4 5 6", "7"}; !slices.Equal(store.batches, want) {
			t.Errorf("batches %q, want %q", store.batches, want)
		}
		for i := range int64(8) {
			r, ok := c.sold[fmt.Sprint(i)]
			if !ok || r.Read != initial-i || r.Remaining != initial-i-1 || r.Version != uint64(i+1) {
				t.Errorf("sale %d: %+v, %v", i, r, c.errs[fmt.Sprint(i)])
			}
		}
		for i, want := range []string{"0 1/1", "1 1/3", "1 2/3", "1 3/3", "4 1/3", "4 2/3", "4 3/3", "7 1/1"} {
			first, place, _ := strings.Cut(want, " ")
			if b := c.sold[fmt.Sprint(i)].Batch; b == nil || b.ID != c.sold[first].ID ||
				fmt.Sprintf("%d/%d", b.Place, b.Size) != place {
				t.Errorf("sale %d: batch %+v, want that of sale %s, place %s", i, b, first, place)
			}
		}
		// Nobody waits for company.
		c.come("alone")
		if _, ok := c.sold["alone"]; !ok {
			t.Error("a sale alone is not sold at once")
		}
	})
}

// A large one that does not fit keeps nobody from what is left.
func TestMergedLargeOne(t *testing.T) {
	merging(t, service.MergeOptions{}, func(c *crowd, _ *counter, letGo func()) {
		c.come("first", quantity(4))
		c.come("large", quantity(7))
		c.come("fits", quantity(6))
		c.come("late")
		letGo()
		for id, left := range map[string]int64{"large": 6, "late": 0} {
			var out *service.SoldOutError
			if !errors.As(c.errs[id], &out) || out.Remaining != left {
				t.Errorf("%s: %v, want sold out with %d left", id, c.errs[id], left)
			}
		}
		if c.sold["fits"].Read != 6 {
			t.Errorf("the one that fits: %v", c.errs["fits"])
		}
	})
}

// Who leaves before its batch begins is not sold to, and nobody behind it waits longer. Who leaves after that is.
func TestMergedLeaving(t *testing.T) {
	merging(t, service.MergeOptions{}, func(c *crowd, store *counter, letGo func()) {
		began := make(chan struct{})
		first := store.during
		store.during = func(n int) error {
			if n == 2 {
				<-began
			}
			return first(n)
		}
		gone := errors.New("the client went away")
		for _, id := range []string{"0", "a", "b", "c", "d"} {
			c.come(id)
		}
		c.come("short", wait(time.Second))
		c.leave["b"](gone)
		synctest.Wait()
		_, err := c.answer("b")
		fails(c.t, err, all(gone), lock.ErrOverloaded, lock.ErrHeld)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, err = c.answer("short")
		fails(c.t, err, all(lock.ErrOverloaded), lock.ErrDown)
		c.leave["0"](gone)
		synctest.Wait()
		if answered, err := c.answer("0"); answered {
			c.t.Errorf("the one whose batch is under way was answered: %v", err)
		}
		letGo()
		c.leave["c"](gone) // in the second batch
		close(began)
		synctest.Wait()
		if want := []string{"0", "a c d"}; !slices.Equal(store.batches, want) || len(c.sold) != 4 {
			c.t.Errorf("batches %q, want %q; %v", store.batches, want, c.errs)
		}
		before := len(store.batches)
		ctx, cancel := context.WithCancel(c.t.Context())
		cancel()
		if _, err := c.sell(ctx); !errors.Is(err, context.Canceled) || len(store.batches) != before {
			c.t.Errorf("one that had left before it came: %v", err)
		}
	})
}

// The queue is bounded: the next one is refused before anything was done.
func TestMergedOverload(t *testing.T) {
	merging(t, service.MergeOptions{Limit: 2, Queue: 3}, func(c *crowd, store *counter, letGo func()) {
		for _, id := range []string{"0", "a", "b", "c", "d"} {
			c.come(id)
		}
		fails(c.t, c.errs["d"], all(lock.ErrOverloaded), lock.ErrDown, service.ErrOutcomeUnknown)
		letGo()
		c.come("e")
		if want := []string{"0", "a b", "c", "e"}; !slices.Equal(store.batches, want) || len(c.sold) != 5 {
			c.t.Errorf("batches %q, want %q", store.batches, want)
		}
	})
}

// An error of the step is that of each of its sales, each with an order id of its own. Nothing is tried again.
func TestMergedErrorIsEverybodys(t *testing.T) {
	merging(t, service.MergeOptions{}, func(c *crowd, store *counter, letGo func()) {
		first := store.during
		store.during = func(n int) error {
			if n == 2 {
				return fmt.Errorf("commit: %w", service.ErrOutcomeUnknown)
			}
			return first(n)
		}
		for _, id := range []string{"0", "a", "b", "c"} {
			c.come(id)
		}
		letGo()
		ids := map[string]bool{}
		for _, id := range []string{"a", "b", "c"} {
			var told *service.OrderError
			if !errors.As(c.errs[id], &told) || !errors.Is(told, service.ErrOutcomeUnknown) || told.OrderID == "" {
				c.t.Errorf("%s: %v", id, c.errs[id])
				continue
			}
			ids[told.OrderID] = true
		}
		c.come("d")
		if want := []string{"0", "a b c", "d"}; !slices.Equal(store.batches, want) ||
			len(ids) != 3 || len(c.sold) != 2 {
			c.t.Errorf("batches %q, want %q; ids %v", store.batches, want, ids)
		}
	})
}

// A panic of the store is that of all who wait for it, and of nobody else.
func TestMergedPanic(t *testing.T) {
	merging(t, service.MergeOptions{Limit: 2}, func(c *crowd, store *counter, letGo func()) {
		first := store.during
		store.during = func(n int) error {
			if n == 2 {
				panic("the store is broken")
			}
			return first(n)
		}
		for _, id := range []string{"0", "a", "b", "c"} {
			c.come(id)
		}
		letGo()
		for id, panicked := range map[string]bool{"0": false, "a": true, "b": true, "c": false} {
			if errors.Is(c.errs[id], errPanicked) != panicked {
				c.t.Errorf("%s: %v, want a panic: %v", id, c.errs[id], panicked)
			}
		}
	})
}

// stuck is a store whose first batch waits until it is let go.
type stuck struct {
	shop
	once        sync.Once
	begun, free chan struct{}
}

func (s *stuck) Batch(ctx context.Context, orders []service.Order) ([]service.BatchResult, error) {
	s.once.Do(func() { close(s.begun); <-s.free })
	return s.shop.Batch(ctx, orders)
}

// Thirty sales are in a batch whose outcome is lost: it is unknown for all of them, and for nobody else. Each is found
// by its own id then, or finally absent.
func TestThirtySalesOfUnknownOutcome(t *testing.T) {
	for _, row := range []struct {
		store, word string
		fault       wire.Action
		written     bool
	}{
		{"redis", "evalsha", wire.Cut, false},
		{"redis", "evalsha", wire.CutReply, true},
		{"mysql", "COMMIT", wire.Cut, false},
		{"mysql", "COMMIT", wire.CutReply, true},
	} {
		t.Run(fmt.Sprintf("%s/%d", row.store, row.fault), func(t *testing.T) {
			t.Parallel()
			p := proxiedMySQL
			if row.store == "redis" {
				p = proxiedRedis
			}
			proxy, far, near := p(t)
			const batch = 30
			seller := service.Merged(service.MergeOptions{Queue: batch})
			hold := &stuck{shop: far, begun: make(chan struct{}), free: make(chan struct{})}
			s := stage(t, seller, hold, within(5*time.Second))
			if _, err := s.SetStock(t.Context(), "", s.sku, 100); err != nil {
				t.Fatal(err)
			}
			c := crowdOf(t, s)
			c.send("first")
			<-hold.begun
			// The first that is refused says that the queue is full.
			for i := 0; c.refused() == 0; i++ {
				if i > 100*batch {
					t.Fatal("nobody is refused")
				}
				c.send(fmt.Sprint(i))
				time.Sleep(time.Millisecond) // only a polling interval
			}
			snare := proxy.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(row.word), Skip: 1, Do: row.fault})
			defer snare.Release()
			close(hold.free)
			c.all.Wait()
			unknown := 0
			for id, err := range c.errs {
				var told *service.OrderError
				switch {
				case err == nil || errors.Is(err, lock.ErrOverloaded):
				case errors.As(err, &told) && errors.Is(err, service.ErrOutcomeUnknown) &&
					!errors.Is(err, lock.ErrDown):
					unknown++
					s.Stores["here"] = service.StoreConfig{
						Store: settling{near}, Needs: s.keeping, Data: service.Trusted{},
					}
					got, err := s.Settle(t.Context(), "here", s.sku, told.OrderID)
					if err != nil || got.Written != row.written || got.Written && got.Order.ID != told.OrderID {
						t.Errorf("%s is settled as %+v, %v; want written: %v", id, got, err, row.written)
					}
				default:
					t.Errorf("%s: %v", id, err)
				}
			}
			if unknown != batch || len(c.sold) != 1 {
				t.Errorf("%d unknown and %d sold, want %d and 1", unknown, len(c.sold), batch)
			}
			sold := int64(1)
			if row.written {
				sold += batch
			}
			s.left(t, 100-sold, sold)
		})
	}
}

type settling struct{ shop }

func (s settling) Settle(ctx context.Context, sku service.SKU, id string) (service.Order, bool, error) {
	return s.shop.(service.Settler).Settle(ctx, sku, id)
}

// The stock is set anew while batches are under way: what is sold afterwards is of the new epoch, and the books of it
// balance.
func TestMergedWhileTheStockIsSetAnew(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, service.Merged(service.MergeOptions{Limit: 8}), open(t))
			var all sync.WaitGroup
			stop := make(chan struct{})
			for range 30 {
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := s.sell(t.Context()); err != nil && !errors.Is(err, service.ErrSoldOut) {
							t.Error(err)
							return
						}
					}
				})
			}
			for range 20 {
				if _, err := s.SetStock(t.Context(), "", s.sku, 200); err != nil {
					t.Error(err)
				}
			}
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
				stock, err := s.Stock(t.Context(), "", s.sku)
				if err != nil || time.Now().After(deadline) {
					t.Errorf("%+v, %v", stock, err)
					break
				}
				if stock.Quantity == 0 {
					break
				}
			}
			close(stop)
			all.Wait()
			s.left(t, 0, 200)
			page, err := s.Orders(t.Context(), "", s.sku, "", service.MaxPage)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range page.Orders {
				if i > 0 && (o.Version != page.Orders[i-1].Version+1 || o.Read != page.Orders[i-1].Remaining) {
					t.Errorf("order %d does not follow the one before: %+v", i, o)
				}
			}
		})
	}
}
