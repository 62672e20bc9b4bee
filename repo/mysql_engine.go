package repo

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"example.com/stock/lock/driver"
)

// An Engine is what a server reports about itself.
type Engine struct {
	About string // for people: version, node, cluster
	// Galera: it is a node of such a cluster, which aborts a transaction when a change that is already ordered, such
	// as that of another node or an ALTER TABLE, is in its way. See docs/adr/0013-one-writer.md.
	Galera  bool
	Several bool // other nodes of its cluster accept writes, too
}

// OneWriter returns a check that calls next if the server accepts writes alone. On a node of a cluster of several
// writers the check fails, unless declared says that all connections lead to one node. It asks each time, because nodes
// may join, and a connection may lead to another server. It also calls told, and makes the sales fit for the engine.
func (m *MySQL) OneWriter(
	declared bool, told func(Engine), next func(context.Context) error,
) func(context.Context) error {
	return func(ctx context.Context) error {
		const doing = "ask what the server is"
		pool, err := m.Pool()
		if err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
		engine, err := readEngine(ctx, pool)
		if err != nil {
			return MySQLFault(ctx, doing, err)
		}
		told(engine)
		m.sales.apart.Store(engine.Galera)
		if engine.Several && !declared {
			return driver.NewDown("mysql", "several-writers")
		}
		return next(ctx)
	}
}

// readEngine takes one round trip, and needs no privilege.
func readEngine(ctx context.Context, db *sql.DB) (Engine, error) {
	rows, err := db.QueryContext(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'hostname', 'port',"+
		" 'read_only', 'wsrep_on', 'wsrep_provider', 'group_replication_group_name',"+
		" 'group_replication_single_primary_mode'); SHOW GLOBAL STATUS LIKE 'wsrep_cluster_size'")
	if err != nil {
		return Engine{}, err
	}
	defer rows.Close()
	told := make(map[string]string)
	for more := true; more; more = rows.NextResultSet() {
		for rows.Next() {
			var name, value string
			if err := rows.Scan(&name, &value); err != nil {
				return Engine{}, err
			}
			told[strings.ToLower(name)] = value
		}
	}
	return engineOf(told), rows.Err()
}

// engineOf interprets a server's variables. A server may lack some of them.
func engineOf(told map[string]string) Engine {
	on := func(name string) bool { return told[name] == "ON" || told[name] == "1" }
	e := Engine{About: told["version"]}
	node := ", node " + told["hostname"] + ":" + told["port"] + " of a "
	switch provider := told["wsrep_provider"]; {
	case on("wsrep_on") && provider != "" && provider != "none":
		size := told["wsrep_cluster_size"]
		e.Galera, e.Several = true, size != "1"
		e.About += node + "Galera cluster of " + size
	case told["group_replication_group_name"] != "":
		// Only a privileged user may read the list of the members.
		e.Several = !on("group_replication_single_primary_mode")
		e.About += node + "Group Replication cluster"
	}
	if on("read_only") {
		e.About += ", read-only"
	}
	return e
}
