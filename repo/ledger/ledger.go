// Package ledger keeps the books of the shop in Redis and in MySQL: the stock, and with it the orders, reservations,
// movements, limits and idempotency keys, written by whole steps.
//
// There is one file for each subject and store: a step is read from top to bottom in step_redis.go and in
// step_mysql.go. What a step decides on, and what it leaves, is in draft.go.
package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"example.com/stock/repo"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// What both ledgers share: what a step may touch, and what it writes.

// outcomeOf puts the results of a Step into an Outcome.
func outcomeOf(reply []byte, replayed bool, err error) order.StepResult {
	return order.StepResult{Reply: reply, Replayed: replayed, Err: err}
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

// A shelf is the stock of one SKU as a step has read it, or as the steps before it leave it.
type shelf struct {
	order.Level // Taken is 0: a customer's is in the draft
	stock       service.Stock
	there       bool // false: the SKU does not exist
	// adopt says that nobody guards the SKU, and something is there: the first step that moves it records what was
	// there as movement 1. The Level is that after this movement.
	adopt bool
}

func newShelf(stock service.Stock, level order.Level) *shelf {
	s := &shelf{Level: level, stock: stock, there: true}
	if stock.Guard == "" && level.Number == 0 && level.Available > 0 {
		s.adopt, s.Number = true, 1
	}
	return s
}

// refuse returns the reason why a step with that fence may not touch the SKU.
func (s *shelf) refuse(fence uint64) error {
	if s.stock.Guard != "" && s.stock.Guard != order.Guard {
		return &service.GuardError{Guard: s.stock.Guard}
	}
	return repo.CheckFence(fence, s.stock.Fence)
}

// move adds m to the level.
func (s *shelf) move(m order.Movement) error {
	if m.Number != s.Number+1 {
		return fmt.Errorf("movement %d of %s follows movement %d", m.Number, m.SKU, s.Number)
	}
	if err := s.Apply(m); err != nil {
		return fmt.Errorf("movement %d of %s: %w", m.Number, m.SKU, err)
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
	return service.Invalid("cursor", "cursor")
}

func placeOf(o order.Order) placeInOrders { return placeInOrders{o.CreatedAt.UnixMicro(), o.ID} }

func decodeLines(text []byte) (lines []order.Line, err error) {
	if err := json.Unmarshal(text, &lines); err != nil {
		return nil, fmt.Errorf("decode lines: %w", err)
	}
	return lines, nil
}
