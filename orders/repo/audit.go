package repo

import (
	"context"
	"database/sql"
	"fmt"

	"example.com/stock/orders/service"
)

// An Imbalance is an error in the books of a SKU.
type Imbalance struct{ SKU, Error string }

// Audit compares the counters of every SKU with what its movements add up to, and with the orders and reservations that
// have its units. It reads all of it as of one moment, and locks nothing. It returns how many SKUs there are.
func (s *Store) Audit(ctx context.Context) (skus int64, wrong []Imbalance, err error) {
	tx := s.db.WithContext(ctx).Begin(&sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if tx.Error != nil {
		return 0, nil, explain(tx.Error)
	}
	defer tx.Rollback()
	if err := tx.Model(&service.Stock{}).Count(&skus).Error; err != nil {
		return 0, nil, explain(err)
	}
	for _, check := range audits {
		var rows []Imbalance
		if err := tx.Raw(check).Scan(&rows).Error; err != nil {
			return 0, nil, fmt.Errorf("audit: %w", explain(err))
		}
		wrong = append(wrong, rows...)
	}
	return skus, wrong, nil
}

// Each query returns the SKUs whose books are wrong, and why.
var audits = []string{`
SELECT s.sku AS sku, CONCAT('the counters break the law: received ', received, ', available ', available, ', reserved ',
  reserved, ', sold ', sold) AS error
FROM stocks s WHERE received <> available + reserved + sold OR LEAST(available, reserved, sold) < 0`, `
SELECT s.sku AS sku, CONCAT('the counters are received ', s.received, ', available ', s.available,
  ', reserved ', s.reserved, ', sold ', s.sold, ', number ', s.number, ', and the movements add up to ',
  COALESCE(m.received, 0), ', ', COALESCE(m.available, 0), ', ', COALESCE(m.reserved, 0), ', ', COALESCE(m.sold, 0),
  ', number ', COALESCE(m.last, 0)) AS error
FROM stocks s LEFT JOIN (
  SELECT sku, SUM(received) AS received, SUM(available) AS available, SUM(reserved) AS reserved,
    SUM(sold) AS sold, MAX(number) AS last FROM movements GROUP BY sku
) m ON m.sku = s.sku
WHERE NOT (s.received <=> COALESCE(m.received, 0) AND s.available <=> COALESCE(m.available, 0)
  AND s.reserved <=> COALESCE(m.reserved, 0) AND s.sold <=> COALESCE(m.sold, 0)
  AND s.number <=> COALESCE(m.last, 0))`, `
SELECT sku, CONCAT('there are ', COUNT(*), ' movements, and the last has the number ', MAX(number)) AS error
FROM movements GROUP BY sku HAVING COUNT(*) <> MAX(number)`, `
SELECT m.sku AS sku, 'there are movements, and no stock' AS error
FROM movements m LEFT JOIN stocks s ON s.sku = m.sku WHERE s.sku IS NULL GROUP BY m.sku`, `
SELECT s.sku AS sku,
  CONCAT('reserved is ', s.reserved, ', and the open reservations have ', COALESCE(l.units, 0)) AS error
FROM stocks s LEFT JOIN (
  SELECT l.sku, SUM(l.quantity) AS units FROM reservations r JOIN cart_lines l ON l.owner_id = r.id
  WHERE r.state = 'held' GROUP BY l.sku
) l ON l.sku = s.sku WHERE s.reserved <> COALESCE(l.units, 0)`, `
SELECT s.sku AS sku, CONCAT('sold is ', s.sold, ', and the orders have ', COALESCE(l.units, 0)) AS error
FROM stocks s LEFT JOIN (
  SELECT l.sku, SUM(l.quantity) AS units FROM orders o JOIN cart_lines l ON l.owner_id = o.id
  WHERE o.state = 'placed' GROUP BY l.sku
) l ON l.sku = s.sku WHERE s.sold <> COALESCE(l.units, 0)`}
