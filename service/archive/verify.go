package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A Check is the result of Verify.
type Check struct {
	Parts        int       `json:"parts"`
	Movements    int       `json:"movements"`
	Orders       int       `json:"orders"`
	Reservations int       `json:"reservations"`
	SKUs         int       `json:"skus"`     // SKUs with movements in the archive
	Problems     []Problem `json:"problems"` // at most maxProblems; empty: archive and ledger are complete
}

// A Problem is one fault of an archive. It is encoded in JSON as a sentence.
type Problem struct {
	Kind   string // one of those below
	File   string
	Part   uint64
	SKU    service.SKU
	Number uint64 // of a movement
	ID     string // of an order or a reservation
	Why    string
}

// The kinds of problems.
const (
	Damaged   = "damaged"   // File cannot be read: Why
	Missing   = "missing"   // there is no Part
	Broken    = "broken"    // Part, in File, does not follow the part before it
	Stale     = "stale"     // Part, the last of the archive, is not the last that the store has recorded
	Sequence  = "sequence"  // movement Number of SKU, in Part, does not follow the movement before it
	Sum       = "sum"       // the carried movement of SKU, in Part, is not the sum of the archived ones
	Twice     = "twice"     // ID is archived twice
	Remains   = "remains"   // ID is both archived and in the store
	Units     = "units"     // the movements of SKU have not sold the units of order ID
	Lost      = "lost"      // movements of SKU have sold units for ID, which is neither archived nor in the store
	Unmatched = "unmatched" // the ledger of SKU does not begin with movement Number, the last of the archive
	Unbalance = "unbalance" // the movements of SKU in the store do not add up: Why
)

func (p Problem) String() string {
	switch p.Kind {
	case Damaged:
		return p.Why
	case Missing:
		return fmt.Sprintf("part %d is missing", p.Part)
	case Broken:
		return fmt.Sprintf("%s: part %d does not follow the one before it: it was never removed from the store",
			p.File, p.Part)
	case Stale:
		return fmt.Sprintf("the last part is %d, and not the last that the store knows", p.Part)
	case Sequence:
		return fmt.Sprintf("%s: movement %d, in part %d, does not follow what is before it", p.SKU, p.Number, p.Part)
	case Sum:
		return fmt.Sprintf("%s: what part %d carries on at number %d is not the sum", p.SKU, p.Part, p.Number)
	case Twice:
		return fmt.Sprintf("%s is archived twice, again in part %d", p.ID, p.Part)
	case Remains:
		return fmt.Sprintf("%s is archived, and in the store", p.ID)
	case Units:
		return fmt.Sprintf("order %s: the movements of %s have sold another number of units", p.ID, p.SKU)
	case Lost:
		return fmt.Sprintf("%s: units were sold for %s, which is neither archived nor in the store", p.SKU, p.ID)
	case Unmatched:
		return fmt.Sprintf("%s: the archive ends with movement %d, and the store goes on from another", p.SKU, p.Number)
	}
	return fmt.Sprintf("%s: %s", p.SKU, p.Why)
}

// MarshalText returns p as a sentence.
func (p Problem) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

const maxProblems = 100

// A verifier is the state of Verify after the parts that it has read.
type verifier struct {
	Check
	last    order.Part
	digests map[uint64]string              // by part
	levels  map[service.SKU]order.Movement // the last carried movement of each SKU
	ids     map[string]bool                // archived orders and reservations
	sold    map[unit]int64                 // units that movements have sold, less those of the archived orders
	orders  map[string]string              // by archived reservation: its order
}

// A unit is an order or a reservation, and one of its SKUs.
type unit struct {
	ref string
	sku service.SKU
}

// Verify checks an archive, given as files and folders of files. It checks that each file is unchanged and no part is
// missing, that the movements of each SKU follow each other and add up to the carried movement, that each order is
// archived once, and that the movements have sold its units. If s is not nil, Verify also compares the archive with
// the store: each record must be in exactly one of them, the store must continue where the archive ends, and the sum
// of all movements must be the stock.
//
// The service may sell meanwhile, but no archiver may run. Verify needs some 200 bytes of memory for each archived
// order.
func Verify(ctx context.Context, s Store, paths []string) (Check, error) {
	files, err := list(paths)
	if err != nil {
		return Check{}, err
	}
	v := &verifier{
		digests: map[uint64]string{},
		Check:   Check{Problems: []Problem{}}, levels: map[service.SKU]order.Movement{}, ids: map[string]bool{},
		sold: map[unit]int64{}, orders: map[string]string{},
	}
	for _, file := range files {
		err := Read(file, func(c Contents) error {
			v.add(c)
			return ctx.Err()
		})
		switch {
		case ctx.Err() != nil:
			return v.Check, ctx.Err()
		case errors.Is(err, ErrDamaged):
			v.wrong(Problem{Kind: Damaged, File: file, Why: err.Error()})
		case err != nil:
			return v.Check, err
		}
	}
	v.SKUs = len(v.levels)
	if s != nil {
		err = v.compare(ctx, s)
	}
	return v.Check, err
}

// list returns the files in paths, and in the folders in paths, sorted by the number of their first part.
func list(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, err
		case !info.IsDir():
			files = append(files, path)
			continue
		}
		names, err := filepath.Glob(filepath.Join(path, "*.jsonl.gz"))
		if err != nil {
			return nil, err
		}
		files = append(files, names...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no *.jsonl.gz in %s: %w", strings.Join(paths, ", "), fs.ErrNotExist)
	}
	begin := make(map[string]uint64, len(files))
	for _, file := range files {
		stop := errors.New("one is enough")
		err := Read(file, func(c Contents) error {
			begin[file] = c.Part.Number
			return stop
		})
		if err != nil && !errors.Is(err, stop) && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
	}
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Compare(begin[a], begin[b]) })
	return files, nil
}

func (v *verifier) wrong(p Problem) {
	if len(v.Problems) < maxProblems {
		v.Problems = append(v.Problems, p)
	}
}

// add checks one part against the parts before it. It skips a second copy of a part, and a part that does not follow
// the last one.
func (v *verifier) add(c Contents) {
	p := c.Part
	if v.digests[p.Number] == p.Digest {
		return
	}
	if p.Number > v.last.Number+1 {
		for n := v.last.Number + 1; n < p.Number && len(v.Problems) < maxProblems; n++ {
			v.wrong(Problem{Kind: Missing, Part: n})
		}
	} else if _, err := p.Follows(v.last); err != nil {
		v.wrong(Problem{Kind: Broken, File: c.File, Part: p.Number})
		return
	}
	v.last, v.digests[p.Number] = p, p.Digest
	v.Parts++
	v.Movements += p.Movements
	v.Orders += p.Orders
	v.Reservations += p.Reservations
	rest := c.Movements
	for _, carry := range c.Carries {
		rest = v.carry(p.Number, carry, rest)
	}
	if len(rest) > 0 {
		v.wrong(Problem{Kind: Sequence, Part: p.Number, SKU: rest[0].SKU, Number: rest[0].Number})
	}
	for _, r := range c.Reservations {
		v.once(r.ID, p.Number)
		v.orders[r.ID] = r.Order
	}
	for _, o := range c.Orders {
		v.once(o.ID, p.Number)
		v.order(o)
	}
}

func (v *verifier) once(id string, part uint64) {
	if v.ids[id] {
		v.wrong(Problem{Kind: Twice, ID: id, Part: part})
	}
	v.ids[id] = true
}

// carry checks the movements of one SKU, with which rest begins, and returns the other movements of rest.
func (v *verifier) carry(part uint64, c order.Carry, rest []order.Movement) []order.Movement {
	sum := v.levels[c.SKU]
	n := min(uint64(len(rest)), c.Number-c.First+1)
	for _, m := range rest[:n] {
		if m.SKU != c.SKU || m.Number != sum.Number+1 {
			v.wrong(Problem{Kind: Sequence, Part: part, SKU: m.SKU, Number: m.Number})
		}
		sum = sum.Carry(m)
		if m.Sold != 0 && m.Ref != "" {
			v.sell(unit{m.Ref, m.SKU}, m.Sold)
		}
	}
	if sum != c.Movement {
		v.wrong(Problem{Kind: Sum, Part: part, SKU: c.SKU, Number: c.Number})
	}
	v.levels[c.SKU] = c.Movement
	return rest[n:]
}

func (v *verifier) sell(u unit, units int64) {
	if v.sold[u] += units; v.sold[u] == 0 {
		delete(v.sold, u)
	}
}

// order compares the units of an order with the units that movements in this part and earlier parts have sold for it.
func (v *verifier) order(o order.Order) {
	for _, l := range o.Lines {
		want := l.Quantity
		if o.State == order.Canceled {
			want = 0
		}
		own, held := unit{o.ID, l.SKU}, unit{o.Reservation, l.SKU}
		if v.sold[own]+v.sold[held] != want {
			v.wrong(Problem{Kind: Units, ID: o.ID, SKU: l.SKU})
		}
		delete(v.sold, own)
		delete(v.sold, held)
	}
}

// page is the number of ids in one request to the store.
const page = 500

func (v *verifier) compare(ctx context.Context, s Store) error {
	last, _, err := s.Archived(ctx)
	if err != nil {
		return err
	}
	if last.Number != v.last.Number || last.Digest != v.last.Digest {
		v.wrong(Problem{Kind: Stale, Part: v.last.Number})
	}
	for sku, carried := range v.levels {
		if err := v.continues(ctx, s, sku, carried); err != nil {
			return err
		}
	}
	ids := make([]string, 0, page)
	ask := func(id string, most int) error {
		if id != "" {
			ids = append(ids, id)
		}
		if len(ids) < most {
			return nil
		}
		there, err := s.Present(ctx, ids)
		for _, id := range there {
			v.wrong(Problem{Kind: Remains, ID: id})
		}
		ids = ids[:0]
		return err
	}
	for id := range v.ids {
		if err := ask(id, page); err != nil {
			return err
		}
	}
	if err := ask("", 1); err != nil {
		return err
	}
	return v.elsewhere(ctx, s)
}

// continues checks that the ledger of a SKU begins with the last carried movement, and adds up to the stock.
func (v *verifier) continues(ctx context.Context, s Store, sku service.SKU, carried order.Movement) error {
	level, err := s.Level(ctx, sku)
	if err != nil {
		return fmt.Errorf("%s: %w", sku, err)
	}
	var failed error
	first := true
	account := order.Audit(sku, level, func(yield func(order.Movement) bool) {
		for m, err := range order.MovementsAfter(0, service.MaxPage, func(after uint64) ([]order.Movement, error) {
			return s.Movements(ctx, sku, after, service.MaxPage)
		}) {
			if failed = err; err != nil {
				return
			}
			if first && m != carried {
				v.wrong(Problem{Kind: Unmatched, SKU: sku, Number: carried.Number})
			}
			if first = false; m.Number > level.Number || !yield(m) {
				return
			}
		}
	})
	if failed != nil {
		return fmt.Errorf("%s: %w", sku, failed)
	}
	for _, p := range account.Problems {
		v.wrong(Problem{Kind: Unbalance, SKU: sku, Why: p.String()})
	}
	return nil
}

// elsewhere handles units that archived movements have sold for an order that is not archived. It checks that the
// order is in the store: it was canceled later, or has a SKU whose movements stay.
func (v *verifier) elsewhere(ctx context.Context, s Store) error {
	var units []unit
	for u := range v.sold {
		units = append(units, u)
	}
	for chunk := range slices.Chunk(units, page) {
		var ids []string
		for _, u := range chunk {
			ids = append(ids, v.became(u.ref))
		}
		there, err := s.Present(ctx, ids)
		if err != nil {
			return err
		}
		for i, u := range chunk {
			if !slices.Contains(there, ids[i]) {
				v.wrong(Problem{Kind: Lost, SKU: u.sku, ID: u.ref})
			}
		}
	}
	return nil
}

// became returns the order that an archived reservation became, or ref if there is none.
func (v *verifier) became(ref string) string { return cmp.Or(v.orders[ref], ref) }
