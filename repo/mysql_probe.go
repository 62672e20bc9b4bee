package repo

import (
	"context"
	"fmt"
	"math/rand/v2"

	"gorm.io/gorm"
)

// ProbeOf makes m the probe of sales, which has separate connections to the same server: see WriteProbe. It returns
// m.
func (m *MySQL) ProbeOf(sales *MySQL) *MySQL {
	m.sales = sales
	return m
}

// pageful is a number of probe rows that need more than one page of InnoDB (16 KiB).
const pageful = 64

// UpdateNothing is a statement of a probe. It fails if the user may not update the stock, and locks no row.
const UpdateNothing = "UPDATE stock SET version = version WHERE 1 = 0"

// WriteProbe sends, in one packet, a transaction that inserts a row into each table and is rolled back. insert adds
// the statements, with the given unique id, and without a semicolon at the end.
//
// One row may still fit into a page of a full disk. So after the server has refused a sale because the disk is full,
// WriteProbe inserts pageful adjacent rows instead, until that succeeds.
//
// A probe waits for locks for at most a second, so that probes do not pile up at the server. Use m only for probes,
// because its connections keep these limits. If a probe fails, its connection is closed, because a new one may reach
// another server.
func (m *MySQL) WriteProbe(ctx context.Context, insert func(s *Statement, id string)) error {
	const doing = "write a probe"
	sales := m.sales
	rows, refused := 1, sales.full.Load()
	if refused {
		rows = pageful
	}
	var s Statement
	s.Add("SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1; " + Begin)
	number := rand.Uint64()
	for row := range rows {
		insert(&s, fmt.Sprintf("probe-%016x-%d", number, row))
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
