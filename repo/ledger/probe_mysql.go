package ledger

import (
	"context"

	"example.com/stock/repo"
)

// CanWrite is a health probe of one round trip. It inserts the rows of a step and rolls them back. It also updates no
// row of the tables that a step updates, for which the user needs the right. A server that is
// read-only, has a full disk or is a Galera node without its cluster refuses them. CanWrite cannot detect that the
// server would refuse a COMMIT. Errors match lock.ErrDown.
func (l *MySQL) CanWrite(ctx context.Context) error {
	return l.mysql.WriteProbe(ctx, func(s *repo.Statement, id string) {
		s.Add("INSERT INTO customer_orders (id, customer, cart, state, reservation_id, late, created_at)"+
			" VALUES (?, '', REPEAT('x', 255), '', '', 0, '2000-01-01'); ", id)
		s.Add("INSERT INTO idempotency_keys (id, fingerprint, reply, created_at)"+
			" VALUES (?, '', REPEAT('x', 255), '2000-01-01'); ", id)
		s.Add("INSERT INTO movements"+
			" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at)"+
			" VALUES (?, 0, '', 0, 0, 0, 0, '', '', REPEAT('x', 255), '2000-01-01'); ", id)
		s.Add(repo.UpdateNothing + "; UPDATE reservations SET state = state WHERE 1 = 0")
	})
}
