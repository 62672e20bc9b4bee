package repo

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"

	"gorm.io/gorm"
)

// ProbeOf makes m the probe of sales, which has other connections to the same server: see WriteProbe. It
// returns m.
func (m *MySQL) ProbeOf(sales *MySQL) *MySQL {
	m.sales = sales
	return m
}

// pageful is how many rows of a probe need more than a page of InnoDB's, of 16 KiB.
const pageful = 64

// WriteProbe sends, in one packet, a transaction that inserts a row into each table and is rolled back. insert adds the
// statements, with an id that no other row has, and the last one without its semicolon.
//
// One row may find room in a page where the next sale does not. So after a sale was refused for lack of room there are
// pageful rows, side by side in the index, until they find room.
//
// At the server a probe waits for a second at most, so that probes do not gather there: use m for probes alone, because
// the connection keeps these limits. A connection whose probe failed is closed: the next one may reach another server.
func (m *MySQL) WriteProbe(ctx context.Context, insert func(s *Statement, id string)) error {
	const doing = "write a probe"
	sales := cmp.Or(m.sales, m)
	rows, refused := 1, sales.full.Load()
	if refused {
		rows = pageful
	}
	var s Statement
	s.Add("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1; " + Begin)
	place := rand.Uint64()
	for row := range rows {
		insert(&s, fmt.Sprintf("probe-%016x-%d", place, row))
		s.Add("; ")
	}
	s.Add("ROLLBACK")
	return m.OnConnection(ctx, doing, func(tx *gorm.DB) error {
		_, err := Send(tx, s.Text.String(), s.Args...)
		switch {
		case err != nil:
			Discard(tx)
		case refused:
			sales.full.Store(false)
		}
		return MySQLFault(ctx, doing, err)
	})
}
