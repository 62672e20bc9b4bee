package repo

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"example.com/stock/orders/service"
)

// An Ask says what a step is about.
type Ask struct {
	SKUs        []string // whose stock may change
	Order       string   // an id; "": none. The SKUs of its lines are locked, too
	Reservation string   // an id; "": none
	Customer    string   // who buys; "": nobody does, so no limit is checked
	Reserves    bool     // the customer's open reservations are counted
	Create      bool     // create the SKUs that do not exist
	Key         Key      // or NoKey
}

const attempts = 5

// Step is one transaction: it locks the rows of the SKUs, sorted, so that steps queue and do not deadlock; lets the
// rule decide; and writes the stock, the movements, the order, the reservation, the events and the key. Everything that
// writes these has locked the same rows before, so what is read after them is current.
//
// A step whose key was written before answers what was answered then, and replayed is true. The step goes on when ctx
// ends, because the caller could not know whether it has written. After ErrUnknown the same step with the same key
// settles what happened; a step that fails with another error has written nothing.
func (s *Store) Step(ctx context.Context, ask Ask, rule service.Rule) (r service.Result, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*answer)
	defer cancel()
	for attempt := 1; ; attempt++ {
		r, replayed, err = s.try(ctx, ask, rule)
		if attempt == attempts || !mayRetry(err) {
			return r, replayed, explain(err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(attempt) * int64(20*time.Millisecond))))
	}
}

func (s *Store) try(ctx context.Context, ask Ask, rule service.Rule) (r service.Result, replayed bool, err error) {
	if ask.SKUs, err = s.skusOf(ctx, ask); err != nil {
		return r, false, err
	}
	tx := s.db.WithContext(ctx).Begin()
	if tx.Error != nil {
		return r, false, tx.Error
	}
	defer tx.Rollback() // does nothing after COMMIT
	state, err := lock(tx, ask)
	if err != nil {
		return r, false, err
	}
	changes, err := rule(state)
	if err == nil && changes.Unchanged && ask.Key == NoKey {
		return changes.Result, false, nil
	}
	if err == nil {
		err = s.write(tx, state, changes, ask.Key)
	}
	if err != nil {
		tx.Rollback()
		return s.answered(ctx, ask.Key, err)
	}
	if err := tx.Commit().Error; err != nil {
		return r, false, commitError(err)
	}
	if s.o.Moved != nil {
		s.o.Moved(changes.Movements)
	}
	return changes.Result, false, nil
}

// skusOf returns the SKUs to lock, sorted. The lines of an order and of a reservation never change, so they can be read
// before the lock.
func (s *Store) skusOf(ctx context.Context, ask Ask) ([]string, error) {
	skus := slices.Clone(ask.SKUs)
	if owner := ask.Order + ask.Reservation; owner != "" {
		lines, err := cartLines(s.db.WithContext(ctx), owner)
		if err != nil {
			return nil, err
		}
		skus = append(skus, service.SKUs(lines[owner])...)
	}
	slices.Sort(skus)
	return slices.Compact(skus), nil
}

// lock locks the stock and reads the state. SYSDATE is the time when a row is read, after it was locked; NOW would be
// that when the statement began to wait. FORCE INDEX: the server would scan a small table, and lock all its rows.
func lock(tx *gorm.DB, ask Ask) (service.State, error) {
	state := service.State{Stock: make(map[string]service.Stock, len(ask.SKUs))}
	if ask.Reserves {
		if err := countOpen(tx, ask.Customer, &state); err != nil {
			return state, err
		}
	}
	if ask.Create {
		for _, sku := range ask.SKUs {
			row := service.Stock{SKU: sku}
			if err := tx.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
				return state, err
			}
		}
	}
	var rows []lockedStock
	err := tx.Table("stocks FORCE INDEX (PRIMARY)").Select("stocks.*, SYSDATE(6) AS now").
		Clauses(clause.Locking{Strength: "UPDATE"}).Where("sku IN ?", ask.SKUs).Order("sku").Find(&rows).Error
	if err != nil {
		return state, err
	}
	var limited []string
	for _, row := range rows {
		state.Stock[row.SKU], state.Now = row.Stock, row.Now
		if row.PerCustomer > 0 {
			limited = append(limited, row.SKU)
		}
	}
	if ask.Customer != "" && len(limited) > 0 {
		if state.Taken, err = taken(tx, ask.Customer, limited); err != nil {
			return state, err
		}
	}
	if ask.Reservation != "" {
		if state.Reservation, err = reservationOf(tx, ask.Reservation); err != nil {
			return state, err
		}
	}
	if ask.Order != "" {
		state.Order, err = orderOf(tx, ask.Order)
	}
	return state, err
}

// countOpen counts the customer's open reservations. It locks the customer's row before any stock, so that two
// reservations of one customer, of different SKUs, do not both find room; all other steps only make room.
func countOpen(tx *gorm.DB, customer string, state *service.State) error {
	err := tx.Exec("INSERT INTO customers (name) VALUES (?) ON DUPLICATE KEY UPDATE name = name", customer).Error
	if err != nil {
		return err
	}
	return tx.Raw("SELECT COUNT(DISTINCT r.id), COALESCE(SUM(l.quantity), 0) FROM reservations r"+
		" JOIN cart_lines l ON l.owner_id = r.id WHERE r.customer = ? AND r.state = ?", customer, service.Held).
		Row().Scan(&state.Open, &state.OpenUnits)
}

// taken returns what the customer has, reserved and sold, of each SKU, whose stock is locked.
func taken(tx *gorm.DB, customer string, skus []string) (map[string]int64, error) {
	var rows []struct {
		SKU   string
		Units int64
	}
	err := tx.Model(&service.Movement{}).Select("sku, SUM(reserved + sold) AS units").
		Where("customer = ? AND sku IN ?", customer, skus).Group("sku").Find(&rows).Error
	units := make(map[string]int64, len(skus))
	for _, row := range rows {
		units[row.SKU] = row.Units
	}
	return units, err
}
