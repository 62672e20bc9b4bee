package archive_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// What is old goes into files while the service sells on; what is left balances, says where it begins, and says of what
// is gone that it may have been archived.
func TestArchive(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 20)
		s.relay(t)
		before := s.now(t)
		stop := s.sells(t, "a", "b")
		var seen []archive.Report
		done := s.mustRun(t, func(o *archive.Options) {
			o.Before = before
			o.Progress = func(r archive.Report) { seen = append(seen, r) }
		})
		busy := stop()
		if done.Orders != len(made) || done.Reservations != 10 || done.Movements != 2+len(made)+10+5+10+10 ||
			done.Behind+done.Kept+done.Changed != 0 || done.Parts != len(seen) || done.Parts < 10 {
			t.Errorf("%+v, %d orders were made", done, len(made))
		}
		if busy == 0 {
			t.Error("nothing was sold meanwhile")
		}
		if done.Last.Before != before.Truncate(time.Microsecond) || done.Last.Number != uint64(done.Parts) {
			t.Errorf("last part %+v", done.Last)
		}
		check := s.whole(t, len(made)+busy)
		if check.SKUs != 2 || check.Movements != done.Movements || check.Reservations != 10 {
			t.Errorf("%+v", check)
		}
		for sku, first := range map[service.SKU]uint64{"a": 1 + 20 + 5 + 5*4, "b": 1 + 10 + 5} {
			all, err := s.Store.Movements(t.Context(), sku, 0, 3)
			if err != nil || len(all) != 3 || all[0].Kind != order.Carried || all[0].Number != first ||
				all[1].Number != first+1 || all[2].Number != first+2 || !all[0].At.Before(before) {
				t.Errorf("%s: %v, %+v", sku, err, all)
			}
			all, err = s.Store.Movements(t.Context(), sku, first, 1)
			if err != nil || len(all) != 1 || all[0].Number != first+1 {
				t.Errorf("%s after %d: %v, %+v", sku, first, err, all)
			}
		}
		for _, o := range made {
			var gone *order.ArchivedError
			if _, err := s.Service.Order(t.Context(), o.Customer, o.ID); !errors.As(err, &gone) ||
				!gone.Before.Equal(done.Last.Before) || !errors.Is(err, order.ErrNotFound) {
				t.Fatalf("order: %v", err)
			}
			if _, _, err := s.CancelOrder(t.Context(), "", o.Customer, o.ID); !errors.As(err, &gone) {
				t.Fatalf("cancel: %v", err)
			}
		}
		young := s.buy(t, "ann", "a")
		if _, err := s.Service.Order(t.Context(), "ann", young.ID); err != nil {
			t.Error(err)
		}
		var gone *order.ArchivedError
		if _, err := s.Service.Order(t.Context(), "bob", young.ID); !errors.Is(err, order.ErrNotFound) ||
			errors.As(err, &gone) {
			t.Errorf("another's: %v", err)
		}
		page, err := s.Service.Orders(t.Context(), "c1", "", 10)
		if err != nil || len(page.Orders) != 0 {
			t.Errorf("orders of a customer: %v, %+v", err, page)
		}
		// All of it, and then a sale after a ledger that has no movement but the one that carries.
		s.relay(t)
		s.mustRun(t)
		all, err := s.Store.Movements(t.Context(), "a", 0, 10)
		if err != nil || len(all) != 1 || all[0].Kind != order.Carried {
			t.Errorf("%v, %+v", err, all)
		}
		s.buy(t, "ann", "a", "b")
		s.whole(t, len(made)+busy+2)
		s.relay(t)
		if again := s.mustRun(t); again.Orders != 1 || again.Movements != 2 || again.Parts != 2 {
			t.Errorf("%+v", again)
		}
		if idle := s.mustRun(t); idle.Parts != 0 {
			t.Errorf("%+v", idle)
		}
		s.whole(t, len(made)+busy+2)
	})
}

// What was not delivered stays, and what belongs to it; --undelivered says that nobody waits for it.
func TestWhatWasNotDeliveredStays(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		s.stock(t, "a", 10)
		s.stock(t, "b", 10)
		s.relay(t)
		s.buy(t, "ann", "a")
		both := s.buy(t, "ann", "a", "b")
		for _, sku := range []service.SKU{"a"} {
			if err := s.Delivered(t.Context(), order.Delivered{SKU: sku, Number: 3}, 1); err != nil {
				t.Fatal(err)
			}
		}
		done := s.mustRun(t)
		if done.Movements != 4 || done.Orders != 1 || done.Behind != 1 || done.Kept != 1 {
			t.Errorf("%+v", done)
		}
		if _, err := s.Order(t.Context(), both.ID); err != nil {
			t.Errorf("the order of what is not delivered: %v", err)
		}
		s.whole(t, 2)
		dry := s.mustRun(t, func(o *archive.Options) { o.Undelivered, o.DryRun = true, true })
		if dry.Movements != 1 || dry.Orders != 1 || dry.Last.Number != done.Last.Number {
			t.Errorf("dry: %+v", dry)
		}
		if behind, err := s.Behind(t.Context(), "", 10); err != nil || len(behind) != 1 {
			t.Errorf("%v, %v", behind, err)
		}
		done = s.mustRun(t, func(o *archive.Options) { o.Undelivered = true })
		if done.Movements != 1 || done.Orders != 1 || done.Behind != 0 {
			t.Errorf("%+v", done)
		}
		if behind, err := s.Behind(t.Context(), "", 10); err != nil || len(behind) != 0 {
			t.Errorf("still to be delivered: %v, %v", behind, err)
		}
		s.whole(t, 2)
	})
}

// A reservation that nobody has ended yet stays, with all movements of its SKU from then on, and their orders.
func TestWhatIsHeldStays(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		ctx := t.Context()
		s.stock(t, "a", 10)
		s.stock(t, "b", 10)
		s.buy(t, "ann", "a")
		held := must[order.Reservation](t)(s.Reserve(ctx, "", "ann", lines([]service.SKU{"a"}), time.Second))
		s.buy(t, "ann", "a")
		s.buy(t, "ann", "b")
		s.relay(t)
		time.Sleep(1100 * time.Millisecond)
		done := s.mustRun(t)
		if done.Movements != 4 || done.Orders != 2 || done.Reservations != 0 || done.Behind != 1 || done.Kept != 1 {
			t.Errorf("%+v", done)
		}
		late := must[order.Order](t)(s.Confirm(ctx, "", "ann", held.ID))
		if !late.Late {
			t.Errorf("%+v", late)
		}
		s.relay(t)
		if done = s.mustRun(t); done.Orders != 2 || done.Reservations != 1 || done.Behind != 0 {
			t.Errorf("%+v", done)
		}
		s.whole(t, 4)
	})
}

// What counts against a limit, counts on.
func TestALimitCountsWhatIsArchived(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		s.stock(t, "a", 10)
		if err := s.Store.SetPolicy(t.Context(), "a", 1); err != nil {
			t.Fatal(err)
		}
		s.buy(t, "ann", "a")
		s.relay(t)
		s.mustRun(t)
		if _, _, err := s.Place(t.Context(), "", "ann", lines([]service.SKU{"a"})); !errors.Is(err, order.ErrLimit) {
			t.Errorf("%v", err)
		}
		s.buy(t, "bob", "a")
	})
}

// Before must be old enough, and a run that is interrupted ends between two steps.
func TestRunRefusesAndStops(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 20)
		s.relay(t)
		_, err := s.run(t, func(o *archive.Options) { o.MinAge = time.Hour })
		var young *archive.YoungError
		if !errors.As(err, &young) || time.Since(young.Latest) < 59*time.Minute {
			t.Errorf("%v", err)
		}
		old := s.mustRun(t, func(o *archive.Options) { o.MinAge, o.Before = time.Hour, o.Before.Add(-2*time.Hour) })
		if old.Parts != 0 {
			t.Errorf("%+v", old)
		}
		ctx, cancel := context.WithCancel(t.Context())
		o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store, Batch: 7}
		o.Progress = func(r archive.Report) {
			if r.Parts == 3 {
				cancel()
			}
		}
		done, err := archive.Run(ctx, s.Store, o)
		if !errors.Is(err, context.Canceled) || done.Parts != 3 {
			t.Errorf("%v, %+v", err, done)
		}
		s.whole(t, len(made))
		o.Progress = nil
		rest, err := archive.Run(t.Context(), s.Store, o)
		if err != nil || rest.Orders != len(made) || rest.Resumed != 0 {
			t.Errorf("%v, %+v", err, rest)
		}
		s.whole(t, len(made))
		if err := os.MkdirAll(filepath.Join(s.dir, "x"), 0o750); err != nil {
			t.Fatal(err)
		}
		if names, _ := filepath.Glob(filepath.Join(s.dir, "*.tmp")); names != nil {
			t.Errorf("left behind: %v", names)
		}
	})
}

// meddling is a store in which something happens before the first step that takes a part with orders away.
type meddling struct {
	archive.Store
	once sync.Once
	do   func()
}

func (m *meddling) TakeAway(ctx context.Context, t order.Taking) error {
	if len(t.Orders) > 0 {
		m.once.Do(m.do)
	}
	return m.Store.TakeAway(ctx, t)
}

// An order that is canceled between its file and its step stays, as it is then, and the others go.
func TestWhatChangesJustThenStays(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		s.stock(t, "a", 10)
		first := s.buy(t, "ann", "a")
		s.buy(t, "bob", "a")
		s.relay(t)
		m := &meddling{Store: s.Store, do: func() {
			must[order.Order](t)(s.CancelOrder(t.Context(), "", "ann", first.ID))
		}}
		done, err := archive.Run(t.Context(), m, archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store})
		if err != nil || done.Orders != 1 || done.Changed != 1 || done.Parts != 2 {
			t.Errorf("%v, %+v", err, done)
		}
		if o, err := s.Order(t.Context(), first.ID); err != nil || o.State != order.Canceled {
			t.Errorf("%v, %+v", err, o)
		}
		s.whole(t, 2)
		s.relay(t)
		if done := s.mustRun(t); done.Orders != 1 {
			t.Errorf("%+v", done)
		}
		s.whole(t, 2)
	})
}

// An archiver that is slow between a file and its step is alone in its folder. Another one would finish the step for
// it, and go on. The first would then be told that its part is taken, and remove a file that is the only copy.
func TestAnArchiverIsAloneInItsFolder(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 12)
		s.relay(t)
		again := func() error {
			_, err := s.run(t, func(o *archive.Options) { o.Batch = 5 })
			return err
		}
		m := &meddling{Store: s.Store, do: func() {
			if err := again(); !errors.Is(err, archive.ErrRunning) {
				t.Errorf("a second archiver: %v, want ErrRunning", err)
			}
		}}
		o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store, Batch: 5}
		if done, err := archive.Run(t.Context(), m, o); err != nil || done.Orders == 0 {
			t.Errorf("%+v, %v", done, err)
		}
		if err := again(); err != nil {
			t.Errorf("after the first one: %v", err)
		}
		s.whole(t, len(made))
	})
}

// Two archivers at a time, into one folder or into two: no part is in both, and what one of them could not finish
// is there for the next.
func TestTwoArchivers(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 30)
		s.relay(t)
		other := t.TempDir()
		before := s.now(t)
		for range 3 {
			var both sync.WaitGroup
			for _, dir := range []string{s.dir, other, s.dir} {
				both.Go(func() {
					_, err := s.run(t, func(o *archive.Options) { o.Dir, o.Before, o.Batch = dir, before, 5 })
					if err != nil && !errors.Is(err, order.ErrTaken) && !errors.Is(err, order.ErrMoved) &&
						!errors.Is(err, archive.ErrRunning) &&
						!strings.Contains(err.Error(), "the ledger is damaged") {
						t.Error(err)
					}
				})
			}
			both.Wait()
		}
		s.mustRun(t, func(o *archive.Options) { o.Before = before })
		s.whole(t, len(made), s.dir, other)
	})
}

// An archiver that reads on comes upon what another one has carried meanwhile.
func TestAnotherArchiverBetweenTwoPages(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 30)
		s.relay(t)
		other := t.TempDir()
		// The first page is one movement longer than a part, so one is collected when the second page is read.
		pages := &pagesOf{Store: s.Store, page: 2, before: func() {
			s.mustRun(t, func(o *archive.Options) { o.Dir = other })
		}}
		o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store, Batch: 5}
		if _, err := archive.Run(t.Context(), pages, o); !errors.Is(err, order.ErrTaken) {
			t.Errorf("%v, want %v", err, order.ErrTaken)
		}
		s.whole(t, len(made), s.dir, other)
	})
}

// A file that another archiver has just made stays as it is.
func TestAFileIsNotReplaced(t *testing.T) {
	eachStore(t, func(t *testing.T, s *shop) {
		made := s.history(t, 10)
		s.relay(t)
		name := filepath.Join(s.dir, archive.FileName(s.store, 1))
		pages := &pagesOf{Store: s.Store, page: 1, before: func() {
			if err := os.WriteFile(name, []byte("of another"), 0o640); err != nil {
				t.Error(err)
			}
		}}
		o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store}
		if _, err := archive.Run(t.Context(), pages, o); !errors.Is(err, os.ErrExist) {
			t.Errorf("%v, want %v", err, os.ErrExist)
		}
		if text, err := os.ReadFile(name); err != nil || string(text) != "of another" {
			t.Errorf("%q, %v", text, err)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		s.mustRun(t)
		s.whole(t, len(made))
	})
}

// pagesOf calls before when that page of movements is about to be read.
type pagesOf struct {
	archive.Store
	read, page int
	before     func()
}

func (p *pagesOf) Movements(ctx context.Context, sku service.SKU, after uint64, limit int) ([]order.Movement, error) {
	if p.read++; p.read == p.page {
		p.before()
	}
	return p.Store.Movements(ctx, sku, after, limit)
}
