// Package archive takes what is old out of a ledger into files, and checks the files and the ledger together.
//
// What is taken away are movements, orders that nobody has changed for long, and reservations that have ended, part by
// part: see [Contents] for a file. A part is written, and is safe on the disk, before the store removes it in one step
// which also records it. What a crash leaves in between is a file that the store does not know: the next run reads it,
// and the store removes what it has. So nothing is lost, and nothing is there twice.
//
// In the place of the movements of a SKU the ledger has one of kind order.Carried: their sum. Its number is that of the
// last one, so the numbers go on without a gap, and the sum of what is left is the stock, as before.
//
// What stays: reservations that are held, and what the relay has not delivered. Then all later movements of the SKU
// stay, and the orders and reservations that these are about: what belongs to an archived order is in the archive. What
// customers have against their limits is counted apart from their orders, and stays.
package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A Store is a ledger that can be archived.
type Store interface {
	order.Archivable
	order.Book
	order.Outbox
	order.Records
	order.Sweeper
}

// Options say what is archived, and where to. The fields without a default are needed.
type Options struct {
	Before      time.Time     // what nobody has changed since is archived
	MinAge      time.Duration // Before must be so long ago; no shorter than keys are kept and reservations last
	Dir         string        // of the files; it is made
	Name        string        // of the store, with which the names of files begin
	Batch       int           // movements, or orders and reservations, of a part; default 1000
	DryRun      bool          // only count: nothing is written or removed
	Undelivered bool          // what no relay has delivered is archived, too, and is never delivered
	Progress    func(Report)  // is called after each part; nil: nobody is
}

// A Report says what a run has done, or would do.
type Report struct {
	Parts        int        `json:"parts"`
	Movements    int        `json:"movements"`
	Orders       int        `json:"orders"`
	Reservations int        `json:"reservations"`
	Resumed      int        `json:"resumed"` // of the parts: a run before had written, but not finished them
	Changed      int        `json:"changed"` // orders and reservations that were changed just then, and stay
	Behind       int        `json:"behind"`  // SKUs of which old movements stay: not delivered, or held since then
	Kept         int        `json:"kept"`    // orders and reservations that stay with such movements
	Last         order.Part `json:"last"`    // that the store knows of
}

// MaxBatch bounds Options.Batch: all of a part is in memory, and in one step of the store.
const MaxBatch = 10_000

const (
	maxDue       = 1000             // reservations that nobody has ended yet
	storeTimeout = 60 * time.Second // of one request to the store
	tries        = 5                // of a step, before a person must look
)

// ErrDue: so many reservations are over and were not ended that no instance can be running.
var ErrDue = fmt.Errorf("%d reservations or more are over, and nobody ends them: is an instance running?", maxDue)

// ErrRunning: another archiver uses the folder.
var ErrRunning = errors.New("another archiver uses the folder")

// ErrForeign: the next part is there already, and is not of this ledger as it is now.
var ErrForeign = errors.New("it is of another ledger, or of this one before it was restored from a copy")

// A YoungError says that Options.Before is later than it may be.
type YoungError struct{ Latest time.Time }

func (e *YoungError) Error() string {
	return fmt.Sprintf("before must be %s or earlier: what is younger may still change",
		e.Latest.UTC().Format(time.RFC3339))
}

// An archiver is one run.
type archiver struct {
	Store
	o      Options
	now    time.Time // by the clock of the store
	done   Report
	behind map[service.SKU]time.Time // SKUs whose movements stay from a time on
	part   Contents                  // that is being collected
	ids    map[string]bool           // in it: pages may have the same orders
	mark   []order.Position          // of Undelivered: to be recorded as delivered with the part
}

// Run archives what is old. When ctx ends, it ends between two steps of the store, with the error of ctx: what was
// archived is archived, and another run goes on. It may run while the service sells, but not twice at a time: of two
// one fails, in the same folder with ErrRunning. The Report is right also with an error.
func Run(ctx context.Context, s Store, o Options) (Report, error) {
	a := newArchiver(s, o)
	err := a.run(ctx)
	return a.done, err
}

func newArchiver(s Store, o Options) *archiver {
	o.Batch = min(cmp.Or(o.Batch, 1000), MaxBatch)
	o.Before = o.Before.UTC().Truncate(time.Microsecond)
	return &archiver{Store: s, o: o, behind: map[service.SKU]time.Time{}}
}

func (a *archiver) run(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	if !a.o.DryRun {
		if err := os.MkdirAll(a.o.Dir, 0o750); err != nil {
			return err
		}
		folder, err := alone(a.o.Dir)
		if err != nil {
			return err
		}
		defer folder.Close()
		// Another archiver may have gone on until a moment ago.
		if err := a.begin(ctx); err != nil {
			return err
		}
		if err := a.resume(ctx); err != nil {
			return err
		}
	}
	if err := a.open(ctx); err != nil {
		return err
	}
	if err := a.movements(ctx); err != nil {
		return err
	}
	return a.records(ctx)
}

// begin reads where the last run has ended.
func (a *archiver) begin(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if a.done.Last, a.now, err = a.Archived(ctx); err != nil {
		return err
	}
	if latest := a.now.Add(-a.o.MinAge); a.o.Before.After(latest) {
		return &YoungError{latest}
	}
	return nil
}

// resume finishes what a run has begun that was killed between a file and its step.
func (a *archiver) resume(ctx context.Context) error {
	for ctx.Err() == nil {
		name := a.file(a.done.Last.Number + 1)
		var found []Contents
		err := Read(name, func(c Contents) error {
			found = append(found, c)
			return nil
		})
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(found) != 1 || found[0].Part.Number != a.done.Last.Number+1 ||
			found[0].Part.Previous != a.done.Last.Digest {
			return fmt.Errorf("%s: %w", name, ErrForeign)
		}
		switch _, err := a.take(ctx, found[0]); {
		case errors.Is(err, order.ErrMoved):
			// It was never removed, and is not the only copy. Or the ledger is older than the file: then it is.
			if err := os.Rename(name, name+".refused"); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			a.done.Resumed++
			a.count(found[0])
		}
	}
	return ctx.Err()
}

// open finds the reservations that are held although they are over. There are none but these that are older than
// MinAge, which is no shorter than a reservation lasts.
func (a *archiver) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	due, err := a.Due(ctx, maxDue)
	if err != nil {
		return err
	}
	if len(due) == maxDue {
		return ErrDue
	}
	for _, r := range due {
		for _, l := range r.Lines {
			a.stays(l.SKU, r.CreatedAt)
		}
	}
	return nil
}

// stays notes that movements of the SKU stay from that time on, if they are old enough to go.
func (a *archiver) stays(sku service.SKU, since time.Time) {
	if before, there := a.behind[sku]; since.Before(a.o.Before) && (!there || since.Before(before)) {
		a.behind[sku] = since
		a.done.Behind = len(a.behind)
	}
}

// movements archives those of every SKU, up to the first that stays.
func (a *archiver) movements(ctx context.Context) error {
	seen := map[service.SKU]bool{} // pages may have the same SKU
	for cursor := ""; ; {
		page, next, err := bounded(ctx, func(ctx context.Context) (paged[[]order.Position], error) {
			page, next, err := a.Positions(ctx, cursor, min(a.o.Batch, service.MaxPage))
			return paged[[]order.Position]{page, next}, err
		})
		if err != nil {
			return err
		}
		for _, at := range page {
			if seen[at.SKU] {
				continue
			}
			seen[at.SKU] = true
			if err := a.sku(ctx, at); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return a.flush(ctx)
		}
	}
}

// shelf collects the movements of one SKU.
func (a *archiver) sku(ctx context.Context, of order.Position) error {
	var carried order.Movement // what stands for all before the next one
	first := uint64(0)         // of the movements that are collected; 0: none are
	carry := func() {
		if first > 0 {
			a.part.Carries = append(a.part.Carries, order.Carry{First: first, Movement: carried})
			if carried.Number > of.Number {
				of.Number = carried.Number
				a.mark = append(a.mark, of)
			}
			first = 0
		}
	}
	defer carry()
	for {
		limit := min(a.o.Batch-len(a.part.Movements)+1, service.MaxPage) // one more: the one that carries
		page, _, err := bounded(ctx, func(ctx context.Context) (paged[[]order.Movement], error) {
			page, err := a.Movements(ctx, of.SKU, carried.Number, limit)
			return paged[[]order.Movement]{page, ""}, err
		})
		if err != nil {
			return err
		}
		for _, m := range page {
			switch since, there := a.behind[of.SKU]; {
			case m.Kind == order.Carried && first > 0: // in the place of what is collected
				return order.ErrTaken
			case m.Kind == order.Carried:
				carried = m
				continue
			case m.Number != carried.Number+1:
				return fmt.Errorf("%s: after movement %d comes %d: the ledger is damaged, see stock audit",
					of.SKU, carried.Number, m.Number)
			case !m.At.Before(a.o.Before), there && !m.At.Before(since):
				return nil
			case m.Number > of.Number && !a.o.Undelivered:
				a.stays(of.SKU, m.At)
				return nil
			}
			if first == 0 {
				first = m.Number
			}
			carried = carried.Carry(m)
			if a.part.Movements = append(a.part.Movements, m); len(a.part.Movements) == a.o.Batch {
				carry()
				if err := a.flush(ctx); err != nil {
					return err
				}
			}
		}
		if len(page) < limit {
			return nil
		}
	}
}

// records archives orders and reservations, but for those that are about movements which stay.
func (a *archiver) records(ctx context.Context) error {
	a.ids = map[string]bool{}
	for cursor := ""; ; {
		page, next, err := bounded(ctx, func(ctx context.Context) (paged[order.Old], error) {
			page, next, err := a.Old(ctx, a.o.Before, cursor, a.o.Batch)
			return paged[order.Old]{page, next}, err
		})
		if err != nil {
			return err
		}
		for _, o := range page.Orders {
			if a.goes(o.ID, o.Lines, o.Ended()) {
				a.part.Orders = append(a.part.Orders, o)
			}
			if err := a.full(ctx); err != nil {
				return err
			}
		}
		for _, r := range page.Reservations {
			if a.goes(r.ID, r.Lines, *r.EndedAt) {
				a.part.Reservations = append(a.part.Reservations, r)
			}
			if err := a.full(ctx); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return a.flush(ctx)
		}
	}
}

// goes reports whether an order or a reservation is to be archived with this part.
func (a *archiver) goes(id string, lines []order.Line, ended time.Time) bool {
	if a.ids[id] {
		return false
	}
	a.ids[id] = true
	for _, l := range lines {
		if since, there := a.behind[l.SKU]; there && !ended.Before(since) {
			a.done.Kept++
			return false
		}
	}
	return true
}

// full archives the part if it has enough orders and reservations.
func (a *archiver) full(ctx context.Context) error {
	if len(a.part.Orders)+len(a.part.Reservations) < a.o.Batch {
		return nil
	}
	return a.flush(ctx)
}

// flush archives what was collected. What a customer changes just then stays, and the rest is archived without it.
func (a *archiver) flush(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c, mark := a.part, a.mark
	a.part, a.mark = Contents{}, nil
	for len(c.Movements)+len(c.Orders)+len(c.Reservations) > 0 {
		if a.o.DryRun {
			c.Part.Movements, c.Part.Orders, c.Part.Reservations = len(c.Movements), len(c.Orders), len(c.Reservations)
			a.count(c)
			return nil
		}
		for _, m := range mark {
			_, _, err := bounded(ctx, func(ctx context.Context) (paged[bool], error) {
				return paged[bool]{}, a.Delivered(ctx, m.Delivered, m.Fence)
			})
			if err != nil {
				return fmt.Errorf("record that %s is not to be delivered: %w", m.SKU, err)
			}
		}
		c.Store = a.o.Name
		c.Part = order.Part{
			Number: a.done.Last.Number + 1, Previous: a.done.Last.Digest, Before: a.before(),
		}
		text := c.encode()
		name := a.file(c.Part.Number)
		if err := write(name, text); err != nil {
			return fmt.Errorf("%w (is another archiver running?)", err)
		}
		unknown, err := a.take(ctx, c)
		if err == nil {
			clear(a.ids) // they are not in the store any more
			a.count(c)
			return nil
		}
		if refused := errors.Is(err, order.ErrMoved) || errors.Is(err, order.ErrTaken); !refused || unknown {
			return err // the file stays: the next run looks what has become of it
		}
		if bad := os.Remove(name); bad != nil || !errors.Is(err, order.ErrMoved) || len(c.Movements) > 0 {
			return errors.Join(err, bad)
		}
		if err := a.refresh(ctx, &c); err != nil {
			return err
		}
	}
	return nil
}

// before is from when on nothing was archived: a run may be about an earlier time than the one before it.
func (a *archiver) before() time.Time {
	if a.done.Last.Before.After(a.o.Before) {
		return a.done.Last.Before
	}
	return a.o.Before
}

// take makes the store remove a part, whose file is there. It reports whether there was a try of which nobody knows
// what became. A step that has begun is finished, whatever becomes of ctx.
func (a *archiver) take(ctx context.Context, c Contents) (unknown bool, err error) {
	whole := context.WithoutCancel(ctx)
	for try := range tries {
		if try > 0 && lock.Sleep(ctx, time.Second<<(try-1)) != nil {
			return unknown, err
		}
		err = func() error {
			ctx, cancel := context.WithTimeout(whole, storeTimeout)
			defer cancel()
			return a.TakeAway(ctx, c.Taking)
		}()
		switch {
		case err == nil, errors.Is(err, order.ErrMoved), errors.Is(err, order.ErrTaken):
			return unknown, err
		case errors.Is(err, service.ErrOutcomeUnknown):
			unknown = true
		}
	}
	return unknown, err
}

// refresh leaves those out that are not in the store as they were read.
func (a *archiver) refresh(ctx context.Context, c *Contents) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	orders, reservations := c.Orders, c.Reservations
	c.Orders, c.Reservations = nil, nil
	for _, o := range orders {
		is, err := a.Order(ctx, o.ID)
		if same(is, o, &err) {
			c.Orders = append(c.Orders, o)
		}
		if err != nil {
			return err
		}
	}
	for _, r := range reservations {
		is, err := a.Reservation(ctx, r.ID)
		if same(is, r, &err) {
			c.Reservations = append(c.Reservations, r)
		}
		if err != nil {
			return err
		}
	}
	left := len(c.Orders) + len(c.Reservations)
	if left == len(orders)+len(reservations) {
		return order.ErrMoved // and it has not: the store says so of what it cannot show
	}
	a.done.Changed += len(orders) + len(reservations) - left
	return nil
}

// same reports whether two records are one. That one is not there is no error.
func same(is, was any, err *error) bool {
	if errors.Is(*err, order.ErrNotFound) {
		*err = nil
		return false
	}
	one, _ := json.Marshal(is)
	two, _ := json.Marshal(was)
	return *err == nil && string(one) == string(two)
}

func (a *archiver) count(c Contents) {
	a.done.Parts++
	a.done.Movements += c.Part.Movements
	a.done.Orders += c.Part.Orders
	a.done.Reservations += c.Part.Reservations
	if !a.o.DryRun {
		a.done.Last = c.Part
	}
	if a.o.Progress != nil {
		a.o.Progress(a.done)
	}
}

func (a *archiver) file(part uint64) string { return filepath.Join(a.o.Dir, FileName(a.o.Name, part)) }

// A paged is a page, and the cursor of the next.
type paged[T any] struct {
	page T
	next string
}

// bounded calls the store, and unpacks what it says.
func bounded[T any](
	ctx context.Context, do func(context.Context) (paged[T], error),
) (page T, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	p, err := do(ctx)
	return p.page, p.next, err
}
