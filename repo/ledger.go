package repo

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/order"
	"example.com/stock/service"
)

// What both ledgers share: what a step may touch, and what it writes.

// KeepKeys is how long an idempotency key is kept where the store itself forgets it, which is Redis, unless
// [RedisLedger.KeepKeysFor] says otherwise. In MySQL the sweeper says how long.
const KeepKeys = 24 * time.Hour

// errKeyTaken reports that the idempotency key of a step is there: another request with it was faster. What was kept
// with it is then read.
var errKeyTaken = errors.New("the idempotency key is there")

// A known is what an idempotency key was kept with.
type known struct {
	Fingerprint string `json:"fingerprint"`
	Reply       []byte `json:"reply"`
}

// replay returns what Step returns for a key that is known.
func (k *known) replay(key order.Key) (reply []byte, replayed bool, err error) {
	if k.Fingerprint != key.Fingerprint {
		return nil, false, order.ErrKeyReused
	}
	return k.Reply, true, nil
}

// reach returns the SKUs that a step may change: those it is about, and those of the order and of the reservation that
// it is about. They are sorted, each once: in this order their rows are locked.
func reach(about order.About, o *order.Order, r *order.Reservation) []service.SKU {
	skus := slices.Clone(about.SKUs)
	for _, lines := range [][]order.Line{linesOf(o), reservedLines(r)} {
		for _, line := range lines {
			skus = append(skus, line.SKU)
		}
	}
	slices.Sort(skus)
	return slices.Compact(skus)
}

func linesOf(o *order.Order) []order.Line {
	if o == nil {
		return nil
	}
	return o.Lines
}

func reservedLines(r *order.Reservation) []order.Line {
	if r == nil {
		return nil
	}
	return r.Lines
}

// A shelf is the stock of one SKU as a step has read it.
type shelf struct {
	order.Level
	stock service.Stock
	// adopt says that nobody guards the SKU, and something is there: the first step that moves it records what was
	// there as movement 1. The Level is that after this movement.
	adopt bool
}

// newShelf returns what a step may do with a SKU, or the reason why it may not touch it.
func newShelf(stock service.Stock, level order.Level, fence uint64) (*shelf, error) {
	switch {
	case stock.Guard != "" && stock.Guard != order.Guard:
		return nil, &service.GuardError{Guard: stock.Guard}
	case fence != 0 && fence < stock.Fence:
		return nil, staleFence(stock.Fence)
	}
	s := &shelf{Level: level, stock: stock}
	if stock.Guard == "" && level.Number == 0 && level.Available > 0 {
		s.adopt, s.Number = true, 1
	}
	return s, nil
}

// shelves are the stock of all SKUs of a step.
type shelves map[service.SKU]*shelf

func (s shelves) levels() map[service.SKU]order.Level {
	levels := make(map[service.SKU]order.Level, len(s))
	for sku, one := range s {
		levels[sku] = one.Level
	}
	return levels
}

// A customerUnits is a change of what a customer has of a SKU, reserved and sold.
type customerUnits struct {
	sku      service.SKU
	customer string
	units    int64
}

// A posting is what a step writes to the stock of its SKUs.
type posting struct {
	moved     []service.SKU    // sorted
	movements []order.Movement // adoptions included, in order for each SKU
	taken     []customerUnits  // sorted, none of them 0
}

// post makes the movements of c on the shelves. It refuses what would break the books: that is a fault of the rules,
// and nothing a client could mend.
func (s shelves) post(now time.Time, c order.Changes) (p posting, err error) {
	taken := map[[2]string]int64{}
	posted := map[service.SKU]bool{}
	for _, m := range c.Movements {
		at := s[m.SKU]
		if at == nil {
			return p, fmt.Errorf("movement of %q, which the step is not about", m.SKU)
		}
		if !posted[m.SKU] && at.adopt {
			p.movements = append(p.movements, order.Movement{
				SKU: m.SKU, Number: 1, Kind: order.Receive, Received: at.Available, Available: at.Available, At: now,
			})
		}
		posted[m.SKU] = true
		m.At = now
		if err := at.move(m); err != nil {
			return p, err
		}
		p.movements = append(p.movements, m)
		if m.Customer != "" {
			taken[[2]string{string(m.SKU), m.Customer}] += m.Reserved + m.Sold
		}
	}
	p.moved = slices.Sorted(maps.Keys(posted))
	for of, units := range taken {
		if units != 0 {
			p.taken = append(p.taken, customerUnits{service.SKU(of[0]), of[1], units})
		}
	}
	slices.SortFunc(p.taken, func(a, b customerUnits) int {
		return cmp.Or(cmp.Compare(a.sku, b.sku), cmp.Compare(a.customer, b.customer))
	})
	return p, nil
}

// move adds m to the level.
func (s *shelf) move(m order.Movement) error {
	s.Received += m.Received
	s.Available += m.Available
	s.Reserved += m.Reserved
	s.Sold += m.Sold
	if m.Number != s.Number+1 {
		return fmt.Errorf("movement %d of %s follows movement %d", m.Number, m.SKU, s.Number)
	}
	s.Number = m.Number
	if s.Received != s.Available+s.Reserved+s.Sold || min(s.Received, s.Available, s.Reserved, s.Sold) < 0 {
		return fmt.Errorf("movement %d of %s would leave %+v, which breaks the law", m.Number, m.SKU, s.Level)
	}
	return nil
}

// empty reports whether a step changes nothing, so that not even its reply is kept.
func empty(c order.Changes) bool {
	return len(c.Movements) == 0 && c.Order == nil && c.Reservation == nil && c.Reply == nil
}

// A placeInOrders is where a page of a customer's orders begins: behind the order with that time and id, of which all
// later ones were on the pages before.
type placeInOrders struct {
	at int64 // in microseconds
	id string
}

// firstOrders is the place of the first page.
var firstOrders = placeInOrders{at: 1 << 62}

func (p placeInOrders) String() string { return strconv.FormatInt(p.at, 10) + "." + p.id }

func parsePlaceInOrders(cursor string) (placeInOrders, error) {
	if cursor == "" {
		return firstOrders, nil
	}
	at, id, cut := strings.Cut(cursor, ".")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !cut || n < 0 || n >= firstOrders.at || id == "" || len(id) > service.MaxSKU {
		return placeInOrders{}, wrongCursor()
	}
	return placeInOrders{n, id}, nil
}

func wrongCursor() error {
	return &service.InvalidError{Field: "cursor", Reason: `must be the "next" of an earlier page`}
}

func placeOf(o order.Order) placeInOrders { return placeInOrders{o.CreatedAt.UnixMicro(), o.ID} }

func decodeLines(text []byte) (lines []order.Line, err error) {
	if err := json.Unmarshal(text, &lines); err != nil {
		return nil, fmt.Errorf("decode lines: %w", err)
	}
	return lines, nil
}
