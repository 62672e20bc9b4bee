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

func (c *counter) Set(
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
func merging(t *testing.T, queue int, test func(c *crowd, store *counter, letGo func())) {
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		store := &counter{}
		store.during = func(n int) error {
			if n == 1 {
				<-first
			}
			return nil
		}
		s := stage(t, service.Merged(queue), store)
		c := crowdOf(t, s)
		letGo := sync.OnceFunc(func() { close(first); synctest.Wait() })
		test(c, store, letGo)
		letGo()
		c.all.Wait()
	})
}

// A batch is what came while the last one was under way, in the order of arrival.
func TestMergedInOrderOfArrival(t *testing.T) {
	merging(t, 0, func(c *crowd, store *counter, letGo func()) {
		for i := range 4 {
			c.come(fmt.Sprint(i))
		}
		letGo()
		if want := []string{"0", "1 2 3"}; !slices.Equal(store.batches, want) {
			t.Errorf("batches %q, want %q", store.batches, want)
		}
		for i := range int64(4) {
			r, ok := c.sold[fmt.Sprint(i)]
			if !ok || r.Read != initial-i || r.Remaining != initial-i-1 || r.Version != uint64(i+1) {
				t.Errorf("sale %d: %+v, %v", i, r, c.errs[fmt.Sprint(i)])
			}
		}
		for i, want := range []string{"0 1/1", "1 1/3", "1 2/3", "1 3/3"} {
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

// A sale that leaves the queue, or whose wait ends there, or that finds it full, was not sold and says why. One whose
// batch has begun is finished.
func TestMergedQueue(t *testing.T) {
	merging(t, 3, func(c *crowd, store *counter, letGo func()) {
		gone := errors.New("the client went away")
		for _, id := range []string{"0", "a", "b"} {
			c.come(id)
		}
		c.come("short", wait(time.Second))
		c.come("full")
		fails(c.t, c.errs["full"], all(lock.ErrOverloaded), lock.ErrDown, service.ErrOutcomeUnknown)
		c.leave["b"](gone)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		fails(c.t, c.errs["b"], all(gone), lock.ErrOverloaded, lock.ErrHeld)
		fails(c.t, c.errs["short"], all(lock.ErrOverloaded), lock.ErrDown)
		c.leave["0"](gone)
		synctest.Wait()
		if answered, err := c.answer("0"); answered {
			c.t.Errorf("the one whose batch is under way was answered: %v", err)
		}
		letGo()
		if want := []string{"0", "a"}; !slices.Equal(store.batches, want) || len(c.sold) != 2 {
			c.t.Errorf("batches %q, want %q; %v", store.batches, want, c.errs)
		}
	})
}

// An error of the step is that of each of its sales, each with an order id of its own. Nothing is tried again.
func TestMergedErrorIsEverybodys(t *testing.T) {
	merging(t, 0, func(c *crowd, store *counter, letGo func()) {
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
