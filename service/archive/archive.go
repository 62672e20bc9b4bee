// Package archive moves old records of a ledger into files, and verifies the files against the ledger.
//
// It archives movements, orders that have not changed for a long time, and reservations that have ended. Each run
// writes them in parts, and each part is a file (see [Contents]). Run first writes the file of a part to disk. Then the
// store removes the records and records the part as archived, in one step. After a crash in between, the next run finds
// the file, reads it, and repeats the step. So no record is lost, and none stays in both places.
//
// In the ledger, one movement of kind order.Carried replaces the archived movements of a SKU. It holds their sum and
// the number of the last of them. So the numbers have no gap, and all movements still add up to the stock.
//
// Held reservations and movements that the relay has not delivered stay in the ledger. All later movements of the same
// SKUs stay too, and so do the orders and reservations of these movements. So the archive has every movement of an
// archived order. The units that count against a customer's limit are stored apart from the orders, and are not
// archived.
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

// Options select what is archived, and where to. Fields without a default are required.
type Options struct {
	Before      time.Time     // archive records that have not changed since this time
	MinAge      time.Duration // least age of Before; at least as long as keys are kept and reservations last
	Dir         string        // folder of the files; Run creates it
	Name        string        // name of the store; file names begin with it
	Batch       int           // most movements, or most orders and reservations, in a part; 0: 1000; at most MaxBatch
	DryRun      bool          // only count, without writing or removing anything
	Undelivered bool          // also archive undelivered movements; they will never be delivered
	Progress    func(Report)  // called after each part; may be nil
}

// A Report counts what a run has archived, or what a dry run would archive.
type Report struct {
	Parts        int        `json:"parts"`
	Movements    int        `json:"movements"`
	Orders       int        `json:"orders"`
	Reservations int        `json:"reservations"`
	Resumed      int        `json:"resumed"` // parts among these that an earlier run has written but not finished
	Changed      int        `json:"changed"` // orders and reservations that stay because they changed during the run
	Behind       int        `json:"behind"`  // SKUs with old movements that are undelivered or have a held reservation
	Kept         int        `json:"kept"`    // orders and reservations that stay because such movements do
	Last         order.Part `json:"last"`    // the last part that the store has recorded
}

// MaxBatch limits Options.Batch, because a part is held in memory and removed in one step of the store.
const MaxBatch = 10_000

const (
	maxDue       = 1000             // number of expired reservations at which Run fails
	storeTimeout = 60 * time.Second // for one request to the store
	tries        = 5                // of the step that removes the records of a part
)

// ErrDue means that at least maxDue reservations have expired and were not ended, so probably no instance is running.
var ErrDue = fmt.Errorf("%d or more reservations have expired and were not ended: is an instance running?", maxDue)

// ErrRunning means that another archiver uses the folder.
var ErrRunning = errors.New("another archiver uses the folder")

// ErrForeign means that the file of the next part exists, but does not follow the last part of this ledger.
var ErrForeign = errors.New("it is of another ledger, or of this one before it was restored from a backup")

// A YoungError reports that Options.Before is later than Latest. Latest is the store's time minus Options.MinAge.
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
	behind map[service.SKU]time.Time // for each SKU, its movements from this time on stay
	part   Contents                  // the part that is being collected
	ids    map[string]bool           // ids seen since the last part, because an order may be on two pages
	mark   []order.Position          // with Undelivered: positions to record as delivered with the part
}

// Run archives old records. When ctx ends, Run returns the error of ctx between two steps of the store. The parts so
// far are complete, and another Run continues. The service may sell meanwhile. If two archivers run at the same time,
// one of them fails. The Report is valid even if Run returns an error.
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
		folder, err := lockFolder(a.o.Dir)
		if err != nil {
			return err
		}
		defer folder.Close()
		// Read the last part again, because another archiver may have run until now.
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

// begin reads the last archived part, and checks Options.Before.
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

// resume finishes the parts of a run that ended after it had written a file and before the store removed its records.
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
			// The store may still have all records of the file. But if the ledger was restored to an earlier state, the
			// file may have the only copy of some, so it is renamed and not removed.
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

// open excludes movements since the creation of a held reservation from the archive. It looks only at expired
// reservations: a held one that has not expired is younger than MinAge, which is at least the longest reservation.
func (a *archiver) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	due, err := a.Due(ctx, 0, maxDue)
	if err != nil {
		return err
	}
	if len(due) == maxDue {
		return ErrDue
	}
	for _, r := range due {
		if r.CreatedAt.IsZero() {
			return fmt.Errorf("reservation %s cannot be read", r.ID)
		}
		for _, l := range r.Lines {
			a.stays(l.SKU, r.CreatedAt)
		}
	}
	return nil
}

// stays excludes the movements of a SKU from the time since on, unless they are too young for the archive anyway.
func (a *archiver) stays(sku service.SKU, since time.Time) {
	if before, there := a.behind[sku]; since.Before(a.o.Before) && (!there || since.Before(before)) {
		a.behind[sku] = since
		a.done.Behind = len(a.behind)
	}
}

// movements archives the movements of every SKU, up to the first one that stays.
func (a *archiver) movements(ctx context.Context) error {
	seen := map[service.SKU]bool{} // a SKU may be on two pages
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

// sku collects those movements of one SKU that may be archived.
func (a *archiver) sku(ctx context.Context, of order.Position) error {
	var carried order.Movement // the sum of all movements so far
	first := uint64(0)         // number of the first collected movement; 0: none yet
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
		limit := min(a.o.Batch-len(a.part.Movements)+1, service.MaxPage) // one more for the order.Carried
		page, _, err := bounded(ctx, func(ctx context.Context) (paged[[]order.Movement], error) {
			page, err := a.Movements(ctx, of.SKU, carried.Number, limit)
			return paged[[]order.Movement]{page, ""}, err
		})
		if err != nil {
			return err
		}
		for _, m := range page {
			switch since, there := a.behind[of.SKU]; {
			case m.Kind == order.Carried && first > 0: // another archiver has removed the collected movements
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

// records archives the old orders and reservations whose movements were archived.
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

// goes reports whether an order or a reservation may be archived, and marks its id as seen.
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

// full calls flush if the part has enough orders and reservations.
func (a *archiver) full(ctx context.Context) error {
	if len(a.part.Orders)+len(a.part.Reservations) < a.o.Batch {
		return nil
	}
	return a.flush(ctx)
}

// flush archives the collected part, except for orders and reservations that have changed since they were read.
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
			clear(a.ids) // the store does not return them any more
			a.count(c)
			return nil
		}
		if refused := errors.Is(err, order.ErrMoved) || errors.Is(err, order.ErrTaken); !refused || unknown {
			return err // keep the file: the next run finds out whether the store has removed the records
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

// before returns the latest Before of this run and of all earlier runs.
func (a *archiver) before() time.Time {
	if a.done.Last.Before.After(a.o.Before) {
		return a.done.Last.Before
	}
	return a.o.Before
}

// take makes the store remove the records of a part whose file is written. It tries several times. unknown reports
// whether the outcome of any try is unknown. If ctx ends, the current try is still finished.
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

// refresh removes from c the orders and reservations that have changed in the store since they were read.
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
		return order.ErrMoved // the store has refused the part, but none of these has changed
	}
	a.done.Changed += len(orders) + len(reservations) - left
	return nil
}

// same reports whether two records are equal. If *err is order.ErrNotFound, same sets *err to nil and returns false.
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

type paged[T any] struct {
	page T
	next string
}

// bounded calls do with a ctx that ends after storeTimeout.
func bounded[T any](
	ctx context.Context, do func(context.Context) (paged[T], error),
) (page T, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	p, err := do(ctx)
	return p.page, p.next, err
}
