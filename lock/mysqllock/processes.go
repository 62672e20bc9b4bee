package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A process is a connection as the server lists it.
type process struct {
	id      int64
	idle    time.Duration // since its last statement began or ended
	query   int64         // grows from statement to statement; 0: MySQL does not tell
	waits   label
	waiting bool
}

// processes lists the connection thread, and those that wait for a lock of this database, in the order in which they came.
//
// Everybody may see those of his own user; the others need the privilege PROCESS. Columns are found by name: MariaDB has more of
// them, and better ones.
func processes(ctx context.Context, conn *sql.Conn, thread int64) ([]process, error) {
	rows, err := conn.QueryContext(ctx, "SELECT * FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"+
		" AND (ID = ? OR (DB = DATABASE() AND INFO LIKE '%"+labelled+"%'))", thread)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var list []process
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]string, len(columns))
		for i, name := range columns {
			row[strings.ToUpper(name)] = values[i].String
		}
		list = append(list, processOf(row))
	}
	// MySQL has no number of the statement: there it is up to the clocks of those who wait.
	slices.SortFunc(list, func(a, b process) int {
		return cmp.Or(cmp.Compare(a.query, b.query), a.waits.since.Compare(b.waits.since), cmp.Compare(a.id, b.id))
	})
	return list, rows.Err()
}

func processOf(row map[string]string) (p process) {
	p.id, _ = strconv.ParseInt(row["ID"], 10, 64)
	p.query, _ = strconv.ParseInt(row["QUERY_ID"], 10, 64)
	p.waits, p.waiting = parseLabel(row["INFO"])
	if ms, err := strconv.ParseFloat(row["TIME_MS"], 64); err == nil {
		p.idle = time.Duration(ms * float64(time.Millisecond))
	} else if s, err := strconv.ParseInt(row["TIME"], 10, 64); err == nil {
		p.idle = time.Duration(s) * time.Second
	}
	return p
}
