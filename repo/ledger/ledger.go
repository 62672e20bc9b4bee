// Package ledger keeps the shop's ledger in Redis and in MySQL: the stock, orders, reservations, movements, limits and
// idempotency keys. A step writes all its changes, or none.
//
// There is one file for each subject and store: to follow a step, read step_redis.go or step_mysql.go from top to
// bottom. pending.go has the state that a step decides on, and its changes.
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

// outcomeOf returns the results of Step as a StepResult.
func outcomeOf(reply []byte, replayed bool, err error) order.StepResult {
	return order.StepResult{Reply: reply, Replayed: replayed, Err: err}
}

// skusOf returns the SKUs that a step may change: the SKUs in about, and those of the order and the reservation. They
// are sorted and without duplicates, because their rows are locked in this order.
func skusOf(about order.About, o *order.Order, r *order.Reservation) []service.SKU {
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

// A stockLevel is the stock of one SKU as it was read, with the changes of earlier steps of the batch.
type stockLevel struct {
	order.Level // without Taken: the units of customers are in pendingWrite.taken
	stock       service.Stock
	there       bool // false: the SKU does not exist
	// adopt is set for a SKU that has some stock but no guard. The first step that moves the SKU records this stock
	// as movement 1, and Level is the level after that movement.
	adopt bool
}

func newStockLevel(stock service.Stock, level order.Level) *stockLevel {
	s := &stockLevel{Level: level, stock: stock, there: true}
	if stock.Guard == "" && level.Number == 0 && level.Available > 0 {
		s.adopt, s.Number = true, 1
	}
	return s
}

// refuse returns the reason why a step with this fence may not touch the SKU, or nil.
func (s *stockLevel) refuse(fence uint64) error {
	if s.stock.Guard != "" && s.stock.Guard != order.Guard {
		return &service.GuardError{Guard: s.stock.Guard}
	}
	return repo.CheckFence(fence, s.stock.Fence)
}

// move adds m to the level.
func (s *stockLevel) move(m order.Movement) error {
	if m.Number != s.Number+1 {
		return fmt.Errorf("movement %d of %s follows movement %d", m.Number, m.SKU, s.Number)
	}
	if err := s.Apply(m); err != nil {
		return fmt.Errorf("movement %d of %s: %w", m.Number, m.SKU, err)
	}
	return nil
}

func empty(c order.Changes) bool {
	return len(c.Movements) == 0 && c.Order == nil && c.Reservation == nil && c.Reply == nil
}

// A placeInOrders is the position where a page of a customer's orders begins: after the order with this time and id,
// the last one of the previous page. Pages list the newest order first.
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
		return nil, fmt.Errorf("%w: lines: %w", repo.ErrDamaged, err)
	}
	return lines, nil
}
