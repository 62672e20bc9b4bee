package repo

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"gorm.io/gorm"
)

// ProbeOf makes m the probe of sales, which has other connections to the same server: see MySQLLedger.CanWrite. It
// returns m.
func (m *MySQL) ProbeOf(sales *MySQL) *MySQL {
	m.sales = sales
	return m
}

// CanWrite reports whether the server takes what a step writes, by rows that are rolled back: a server that is
// read-only, has a full disk or is a Galera node without its cluster refuses them. It is one round trip, for a health
// probe. It cannot tell whether COMMIT would be refused. Errors match lock.ErrDown.
func (l *MySQLLedger) CanWrite(ctx context.Context) error {
	return l.mysql.canWrite(ctx, func(s *statement, id string) {
		s.add("INSERT INTO customer_orders (id, customer, cart, state, reservation_id, late, created_at)"+
			" VALUES (?, '', REPEAT('x', 255), '', '', 0, '2000-01-01'); ", id)
		s.add("INSERT INTO idempotency_keys (id, fingerprint, reply, created_at)"+
			" VALUES (?, '', REPEAT('x', 255), '2000-01-01'); ", id)
		s.add("INSERT INTO movements"+
			" (sku, number, kind, received, available, reserved, sold, ref, customer, reason, at)"+
			" VALUES (?, 0, '', 0, 0, 0, 0, '', '', REPEAT('x', 255), '2000-01-01')", id)
	})
}

// pageful is how many rows of a probe need more than a page of InnoDB's, of 16 KiB.
const pageful = 64

// canWrite sends, in one packet, a transaction that inserts a row into each table and is rolled back. insert adds the
// statements, with an id that no other row has, and the last one without its semicolon.
//
// One row may find room in a page where the next sale does not. So after a sale was refused for lack of room there are
// pageful rows, side by side in the index, until they find room.
//
// At the server a probe waits for a second at most, so that probes do not gather there: use m for probes alone, because
// the connection keeps these limits. A connection whose probe failed is closed: the next one may reach another server.
func (m *MySQL) canWrite(ctx context.Context, insert func(s *statement, id string)) error {
	const doing = "write a probe"
	sales := cmp.Or(m.sales, m)
	rows, refused := 1, sales.full.Load()
	if refused {
		rows = pageful
	}
	var s statement
	s.add("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1; " + begin)
	place := rand.Uint64()
	for row := range rows {
		insert(&s, fmt.Sprintf("probe-%016x-%d", place, row))
		s.add("; ")
	}
	s.add("ROLLBACK")
	return m.onConnection(ctx, doing, func(tx *gorm.DB) error {
		_, err := send(tx, s.text.String(), s.args...)
		switch {
		case err != nil:
			discard(tx)
		case refused:
			sales.full.Store(false)
		}
		return mysqlFault(ctx, doing, err)
	})
}
