package selltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

func receiptIsTrue(t *testing.T, w *way) {
	s, _ := w.stage(t)
	before, err := s.Stock(t.Context(), "", s.sku)
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Now()
	r, err := s.sell(t.Context(), quantity(3))
	answered := time.Now()
	if err != nil {
		t.Fatal(err)
	}
	if r.SKU != s.sku || r.Quantity != 3 || r.Remaining != r.Read-3 || r.Epoch != before.Epoch || r.Strategy != "it" ||
		r.Store != "here" || r.Instance != "app-1" || r.RequestID != "r-1" || r.LeaseLost {
		t.Errorf("receipt %+v of stock %+v", r, before)
	}
	if whole := r.Segment == 0; whole == w.Segmented || whole && (r.Read != initial || r.Version != before.Version) {
		t.Errorf("receipt %+v of stock %+v", r, before)
	}
	if fenced := w.Lock != nil && w.Promise.Fenced; r.HolderFence > 0 != fenced || r.Fence != uint64(r.HolderFence) {
		t.Errorf("fence %d held, %d written; want fences: %t", r.HolderFence, r.Fence, fenced)
	}
	if r.Waited < 0 || r.AcquiredAt.Before(asked) || r.ReleasedAt.Before(r.AcquiredAt) ||
		r.ReleasedAt.After(answered) || r.Held != r.ReleasedAt.Sub(r.AcquiredAt) || r.Waited > r.AcquiredAt.Sub(asked) {
		t.Errorf("asked %v, waited %v, from %v to %v held %v, answered %v",
			asked, r.Waited, r.AcquiredAt, r.ReleasedAt, r.Held, answered)
	}
	page, err := s.Orders(t.Context(), "", s.sku, "", 10)
	if err != nil || len(page.Orders) != 1 {
		t.Fatalf("orders %+v, %v; want one", page, err)
	}
	want := r.Order
	want.CreatedAt = page.Orders[0].CreatedAt // a store may keep less of it
	if page.Orders[0] != want || want.CreatedAt.Sub(r.CreatedAt).Abs() > time.Millisecond {
		t.Errorf("order %+v, the receipt says %+v", page.Orders[0], r.Order)
	}
	if again, err := s.sell(t.Context()); err != nil || again.ID == r.ID {
		t.Errorf("a second sale: %+v, %v; want another id than %s", again, err, r.ID)
	}
	_, err = s.sell(t.Context(), func(r *service.Request) { r.SKU = "nobody-has-this" })
	fails(t, err, all(service.ErrUnknownSKU))
}

func soldOutIsTrue(t *testing.T, w *way) {
	one, other := w.stage(t)
	refuses := func(s *scene, n, remain int64) {
		t.Helper()
		_, err := s.sell(t.Context(), quantity(n))
		left(t, err, remain)
	}
	refuses(one, initial+1, initial)
	if _, err := other.sell(t.Context(), quantity(initial)); err != nil {
		t.Fatalf("all that there is: %v", err)
	}
	refuses(one, 1, 0)
	refuses(other, 1, 0)
	stock, err := one.Stock(t.Context(), "", one.sku)
	if err != nil || stock.Quantity != 0 || stock.Sold != initial {
		t.Errorf("stock %+v, %v", stock, err)
	}
}

func sellsExactly(t *testing.T, w *way) {
	one, other := w.stage(t)
	const stocked = 30
	if _, err := one.SetStock(t.Context(), "", one.sku, stocked); err != nil {
		t.Fatal(err)
	}
	purchases := buyAtOnce(t, []*scene{one, other}, buyersOf(8, 2, 1, 2, 3))
	audit(t, one, purchases, stocked)
	if stock, err := one.Stock(t.Context(), "", one.sku); err != nil || stock.Quantity != 0 {
		t.Errorf("%d left, %v; want none: somebody wants one", stock.Quantity, err)
	}
}

func guards(t *testing.T, w *way) {
	s, _ := w.stage(t, func(c *service.Config) {
		c.Strategies["another"] = service.StrategyConfig{Seller: service.Atomically}
	})
	another := func(r *service.Request) { r.Strategy = "another" }
	guarded := func(err error, by string) {
		t.Helper()
		if told, ok := errors.AsType[*service.GuardError](err); !ok || told.Guard != by {
			t.Errorf("%v, want a GuardError that names %q", err, by)
		}
	}
	if _, err := s.sell(t.Context()); err != nil {
		t.Fatal(err)
	}
	// It asks for more than there is: it must not look as if it were sold out.
	_, err := s.sell(t.Context(), another, quantity(initial))
	guarded(err, "it")
	s.sold(t, 1)
	if _, err := s.SetStock(t.Context(), "", s.sku, initial); err != nil {
		t.Fatal(err)
	}
	if _, err := s.sell(t.Context(), another); err != nil {
		t.Errorf("after the stock was set: %v", err)
	}
	_, err = s.sell(t.Context())
	guarded(err, "another")
	s.sold(t, 1)
}

func clientLeavesInside(t *testing.T, w *way) {
	s, _ := w.stage(t)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	if _, err := s.sell(ctx, s.at(service.Writes, func(service.Step) { leave() })); err != nil || ctx.Err() == nil {
		t.Errorf("%v, want the order written; has left: %v", err, ctx.Err())
	}
	s.sold(t, 1)
}

// A strategy that reads and writes in one step sells from the books that it finds.
func booksSetAnew(t *testing.T, w *way) {
	s, _ := w.stage(t)
	set := func(quantity int64) {
		if err := w.rig.remove[w.kept](s.sku); err != nil {
			t.Error(err)
		}
		if _, err := w.store.Set(context.WithoutCancel(t.Context()), s.sku, quantity, service.Condition{}); err != nil {
			t.Error(err)
		}
	}
	moment, sold, want := service.Thinks, int64(0), service.ErrStockReset
	var setting sync.WaitGroup
	anew := func(service.Step) { set(initial) }
	switch w.Name {
	case "atomic", "merged":
		moment, sold, want = service.Writes, 1, nil
	case "pessimistic": // its row is locked, so whoever deletes it waits for the end of the sale
		anew, want = func(service.Step) { setting.Go(func() { set(initial) }) }, nil
	}
	_, err := s.sell(t.Context(), s.at(moment, anew))
	setting.Wait()
	if !errors.Is(err, want) {
		t.Errorf("the sale: %v, want %v", err, want)
	}
	s.sold(t, sold)
	// That an SKU was sold out is no property of its next books.
	set(1)
	for _, want := range []error{nil, service.ErrSoldOut, service.ErrSoldOut} {
		if _, err := s.sell(t.Context()); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	set(2)
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("from new books: %v", err)
	}
	s.left(t, 1, 1)
}

// asking lets something happen a moment after a sale has asked for its lock. The sale waits then, or is about to.
func (s *scene) asking(do func()) func(*service.Request) {
	return s.at(service.Waits, func(service.Step) { time.AfterFunc(50*time.Millisecond, do) })
}

func takesTurns(t *testing.T, w *way) {
	one, other := w.stage(t)
	letGo := one.inside(t, service.Thinks)

	_, err := other.sell(t.Context(), wait(0))
	fails(t, err, all(lock.ErrHeld), context.DeadlineExceeded, lock.ErrDown)
	_, err = other.sell(t.Context(), wait(2*time.Second))
	fails(t, err, all(lock.ErrHeld, context.DeadlineExceeded), lock.ErrDown)
	gone := errors.New("the client closed the connection")
	ctx, leave := context.WithCancelCause(t.Context())
	_, err = other.sell(ctx, other.asking(func() { leave(gone) }))
	fails(t, err, all(gone), context.DeadlineExceeded, lock.ErrDown)
	down := &driver.DownError{Server: "store", Reason: "the test says so"}
	_, err = other.sell(t.Context(), other.asking(func() { other.keeping.turn(t, down) }))
	fails(t, err, all(lock.ErrDown), context.DeadlineExceeded)
	other.keeping.turn(t, nil)

	ended := make(chan answer, 1)
	second, err := other.sell(t.Context(), other.asking(func() { ended <- letGo() }))
	first := <-ended
	if err != nil || first.err != nil || second.AcquiredAt.Before(first.receipt.ReleasedAt) {
		t.Errorf("first until %v, %v; second from %v, %v",
			first.receipt.ReleasedAt, first.err, second.AcquiredAt, err)
	}
	one.sold(t, 2)
}

func bounded(t *testing.T, w *way) {
	s, _ := w.stage(t, func(c *service.Config) { c.Waiting = 1 })
	letGo := s.inside(t, service.Writes)
	_, err := s.sell(t.Context())
	fails(t, err, all(lock.ErrOverloaded), lock.ErrHeld, lock.ErrDown)
	if first := letGo(); first.err != nil {
		t.Error(first.err)
	}
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("when the first has left: %v", err)
	}
	s.sold(t, 2)
}

func evictedCannotWrite(t *testing.T, w *way) {
	s, next := w.stage(t)
	var evicted service.Eviction
	_, err := s.sell(t.Context(), lab(service.Lab{IgnoreLoss: true}), s.at(service.Thinks, func(step service.Step) {
		standing, err := s.Lock(t.Context(), "it", s.key(step))
		if err != nil || standing.Holder == nil || standing.Holder.Who != "app-1/r-1" {
			t.Errorf("standing %+v, %v; want it held by app-1/r-1", standing, err)
		}
		if evicted, err = s.Evict(t.Context(), "it", s.key(step)); err != nil {
			t.Error(err)
		}
	}))
	fails(t, err, all(service.ErrStaleFence))
	s.sold(t, 0)
	if h := evicted.Holder; h == nil || h.Who != "app-1/r-1" || h.Fence >= evicted.Fence {
		t.Errorf("evicted %+v, with fence %d", h, evicted.Fence)
	}
	if told, here := evicted.Stores["here"]; !here || told != nil {
		t.Errorf("stores %v, want that it was told", evicted.Stores)
	}
	if _, err := next.sell(t.Context()); err != nil {
		t.Errorf("the next one: %v", err)
	}
	s.sold(t, 1)
}

// key is the key of the lock under which a sale is.
func (s *scene) key(step service.Step) string {
	if step.Segment > 0 {
		return string(s.sku) + "#" + string(rune('0'+step.Segment))
	}
	return string(s.sku)
}

func lateLossIsFlagged(t *testing.T, w *way) {
	s, _ := w.stage(t)
	r, err := s.sell(t.Context(), s.at(service.Wrote, func(step service.Step) {
		if _, err := s.Evict(t.Context(), "it", s.key(step)); err != nil {
			t.Error(err)
		}
	}))
	if err != nil || !r.LeaseLost {
		t.Errorf("receipt %+v, %v; want the order, flagged", r, err)
	}
	s.sold(t, 1)
}

func tellsItsSteps(t *testing.T, w *way) {
	points, steps := everyPoint, "acquired read thinks writes wrote released"
	switch w.Name {
	case "atomic", "merged":
		points, steps = "before_lock,after_lock,after_write,after_unlock", "acquired writes wrote released"
	case "pessimistic": // the read is what locks
		points = "before_lock,after_read,before_write,after_write,after_unlock"
	case "segmented": // units are fetched first
		steps = "acquired released " + steps
	}
	s, _ := w.stage(t)
	var told stepList
	l := linger(t, s, lab(service.Lab{Pause: pausesAt(t, everyPoint)}),
		s.told(&told))
	var seen []string
	for point := l.next(); point != ""; point = l.next() {
		seen = append(seen, point)
		l.release()
	}
	if err := <-l.done; err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(seen, ","); got != points {
		t.Errorf("it stood at %s, want %s", got, points)
	}
	if got := told.kinds(); got != "arrived waits "+steps+" ended" {
		t.Errorf("told %s\nwant arrived waits %s ended", got, steps)
	}
	for _, step := range told.steps {
		if wrote := step.Kind == service.Wrote; (wrote || step.Kind == service.ReadIt) &&
			(step.Read != l.got.Read || step.Version != l.got.Version || step.Epoch != l.got.Epoch ||
				step.Fence != l.got.HolderFence || wrote && step.Remaining != l.got.Remaining) {
			t.Errorf("%s: %+v, but the receipt is %+v", step.Kind, step, l.got)
		}
	}
	if l.got.ReadAt.IsZero() || l.got.WrittenAt.Before(l.got.ReadAt) {
		t.Errorf("read at %v, written at %v", l.got.ReadAt, l.got.WrittenAt)
	}
	s.sold(t, 1)
}

// A stepList keeps the steps of one sale.
type stepList struct {
	mu    sync.Mutex
	steps []service.Step
}

func (l *stepList) Tell(s service.Step) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.steps = append(l.steps, s)
}

func (l *stepList) kinds() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for _, s := range l.steps {
		switch s.Kind {
		case service.Woken, service.Paused, service.Resumed:
		default:
			names = append(names, string(s.Kind))
		}
	}
	return strings.Join(names, " ")
}
