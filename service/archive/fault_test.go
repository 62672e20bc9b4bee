package archive_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"example.com/stock/service"
	"example.com/stock/service/archive"
	"example.com/stock/service/order"
)

// errStore is what a refusing store fails with.
var errStore = errors.New("the store cannot now")

// A refusing store fails where it is told to.
type refusing struct {
	archive.Store
	at    string
	moved bool // the first part with records has changed, it says
}

func (r *refusing) fail(at string) error {
	if r.at == at {
		return errStore
	}
	return nil
}

func (r *refusing) Archived(ctx context.Context) (order.Part, time.Time, error) {
	part, now, err := r.Store.Archived(ctx)
	return part, now, errors.Join(err, r.fail("Archived"))
}

func (r *refusing) Positions(ctx context.Context, cursor string, limit int) ([]order.Position, string, error) {
	page, next, err := r.Store.Positions(ctx, cursor, limit)
	return page, next, errors.Join(err, r.fail("Positions"))
}

func (r *refusing) Old(ctx context.Context, before time.Time, from string, limit int) (order.Old, string, error) {
	page, next, err := r.Store.Old(ctx, before, from, limit)
	return page, next, errors.Join(err, r.fail("Old"))
}

func (r *refusing) Present(ctx context.Context, ids []string) ([]string, error) {
	there, err := r.Store.Present(ctx, ids)
	return there, errors.Join(err, r.fail("Present"))
}

func (r *refusing) Level(ctx context.Context, sku service.SKU) (order.Level, error) {
	level, err := r.Store.Level(ctx, sku)
	return level, errors.Join(err, r.fail("Level"))
}

func (r *refusing) Movements(ctx context.Context, sku service.SKU, after uint64, n int) ([]order.Movement, error) {
	page, err := r.Store.Movements(ctx, sku, after, n)
	return page, errors.Join(err, r.fail("Movements"))
}

func (r *refusing) Due(ctx context.Context, skip, limit int) ([]order.Reservation, error) {
	due, err := r.Store.Due(ctx, skip, limit)
	return due, errors.Join(err, r.fail("Due"))
}

func (r *refusing) Delivered(ctx context.Context, d order.Delivered, fence uint64) error {
	return errors.Join(r.Store.Delivered(ctx, d, fence), r.fail("Delivered"))
}

func (r *refusing) Order(ctx context.Context, id string) (order.Order, error) {
	o, err := r.Store.Order(ctx, id)
	return o, errors.Join(err, r.fail("Order"))
}

func (r *refusing) Reservation(ctx context.Context, id string) (order.Reservation, error) {
	o, err := r.Store.Reservation(ctx, id)
	return o, errors.Join(err, r.fail("Reservation"))
}

func (r *refusing) TakeAway(ctx context.Context, t order.Taking) error {
	if r.moved && len(t.Orders)+len(t.Reservations) > 0 {
		r.moved = false
		return order.ErrMoved
	}
	return r.Store.TakeAway(ctx, t)
}

// miniShop has an empty ledger that needs no server.
func miniShop(t *testing.T) *shop {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	p := place{"redis", server.Addr()}
	books, closed, err := p.open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closed() })
	return &shop{books, p, order.New(order.Config{
		Store: books, Needs: always{}, Work: testWork, KeepKey: time.Hour, Gone: order.GoneFrom(books),
	}), t.TempDir()}
}

// Wherever the store fails, the run ends with its error, and the next one does what is left.
func TestAFaultOfTheStoreEndsTheRun(t *testing.T) {
	t.Parallel()
	for _, at := range []string{
		"Archived", "Due", "Positions", "Movements", "Old", "Delivered", "Order", "Reservation", "nowhere",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			s := miniShop(t)
			made := s.history(t, 10)
			r := &refusing{Store: s.Store, at: at, moved: at == "Order" || at == "Reservation"}
			o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store, Undelivered: true}
			_, err := archive.Run(t.Context(), r, o)
			if errors.Is(err, errStore) != (at != "nowhere") {
				t.Errorf("%v", err)
			}
			rest, err := archive.Run(t.Context(), s.Store, o)
			if err != nil || rest.Resumed != 0 {
				t.Errorf("the next run: %v, %+v", err, rest)
			}
			if check := s.whole(t, len(made)); check.Orders != len(made) {
				t.Errorf("%d of %d orders are archived", check.Orders, len(made))
			}
		})
	}
}

// A check that could not read the store fails, and does not say that all is well.
func TestAFaultOfTheStoreEndsTheCheck(t *testing.T) {
	t.Parallel()
	s := miniShop(t)
	s.history(t, 10)
	s.relay(t)
	s.mustRun(t)
	for _, at := range []string{"Archived", "Level", "Movements", "Present", "nowhere"} {
		_, err := archive.Verify(t.Context(), &refusing{Store: s.Store, at: at}, []string{s.dir})
		if errors.Is(err, errStore) != (at != "nowhere") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

// leaving is a store that is left in the middle of a step: nobody waits for another try.
type leaving struct {
	archive.Store
	leave context.CancelFunc
}

func (l *leaving) TakeAway(context.Context, order.Taking) error {
	l.leave()
	return errStore
}

// A part whose step has failed stays as a file until the store has decided about it.
func TestAStepThatFailsLeavesItsFile(t *testing.T) {
	t.Parallel()
	s := miniShop(t)
	made := s.history(t, 10)
	s.relay(t)
	o := archive.Options{Before: s.now(t), Dir: s.dir, Name: s.store}
	name := filepath.Join(s.dir, archive.FileName(s.store, 1))
	for _, when := range []string{"at first", "when it is resumed"} {
		ctx, leave := context.WithCancel(t.Context())
		done, err := archive.Run(ctx, &leaving{s.Store, leave}, o)
		leave()
		if !errors.Is(err, errStore) || done.Parts != 0 {
			t.Errorf("%s: %v, %+v", when, err, done)
		}
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	if done, err := archive.Run(t.Context(), s.Store, o); err != nil || done.Resumed != 1 {
		t.Errorf("%v, %+v", err, done)
	}
	s.whole(t, len(made))
}

// A file in the place of the next part that is another part, or follows another one, is refused and stays.
func TestAFileOfAnotherLedgerIsRefused(t *testing.T) {
	t.Parallel()
	other := miniShop(t)
	other.history(t, 10)
	other.relay(t)
	other.mustRun(t)
	second, err := os.ReadFile(filepath.Join(other.dir, archive.FileName(other.store, 2)))
	if err != nil {
		t.Fatal(err)
	}
	for place := range uint64(2) {
		s := miniShop(t)
		s.history(t, 5)
		s.relay(t)
		if place > 0 {
			s.mustRun(t, func(o *archive.Options) { o.Batch = archive.MaxBatch })
			s.buy(t, "ann", "a")
			s.relay(t)
		}
		last, _, err := s.Archived(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(s.dir, archive.FileName(s.store, last.Number+1))
		if err := os.MkdirAll(s.dir, 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, second, 0o640); err != nil {
			t.Fatal(err)
		}
		if _, err := s.run(t); !errors.Is(err, archive.ErrForeign) {
			t.Errorf("as part %d: %v", last.Number+1, err)
		}
		if text, err := os.ReadFile(name); err != nil || !bytes.Equal(text, second) {
			t.Errorf("as part %d: the file has changed, %v", last.Number+1, err)
		}
	}
}

// Files are read in the order of their parts, in whatever order they are named.
func TestFilesAreReadInTheOrderOfTheirParts(t *testing.T) {
	t.Parallel()
	s := miniShop(t)
	made := s.history(t, 20)
	s.relay(t)
	s.mustRun(t)
	files, err := filepath.Glob(filepath.Join(s.dir, "*"))
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	slices.Reverse(files)
	s.whole(t, len(made), files...)
	slices.Reverse(files[1:])
	s.whole(t, len(made), files...)
}
