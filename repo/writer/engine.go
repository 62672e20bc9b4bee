// Package writer makes all instances sell through one node of a MySQL cluster that accepts writes on several nodes.
package writer

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"

	"example.com/stock/repo"
)

// A Cluster is a kind of cluster that a server may be a node of.
type Cluster string

// The kinds of clusters.
const (
	NoCluster Cluster = ""
	// Galera accepts writes on every node. Two conflicting transactions are detected at COMMIT, and one of them fails
	// with a deadlock error. Row locks and GET_LOCK exist on one node only.
	Galera Cluster = "Galera"
	// GroupReplication is MySQL's. It accepts writes on every node only in multi-primary mode.
	GroupReplication Cluster = "Group Replication"
	// TiDB is a distributed database that speaks MySQL's protocol: to its clients it is one server.
	TiDB Cluster = "TiDB"
)

// An Engine is what a server reports about itself.
type Engine struct {
	Version  string // such as 10.11.19-MariaDB
	Node     string // host:port, as the server knows itself
	Cluster  Cluster
	Members  int  // members of the cluster, as far as the server knows; 0: not known
	Several  bool // several members accept writes
	ReadOnly bool
}

// String describes e for people: version, node, cluster.
func (e Engine) String() string {
	var b strings.Builder
	b.WriteString(e.Version)
	switch {
	case e.Cluster == NoCluster, e.Cluster == TiDB: // the version of TiDB already contains the name
	case e.Members > 0:
		fmt.Fprintf(&b, ", node %s of a %s cluster of %d", e.Node, e.Cluster, e.Members)
	default:
		fmt.Fprintf(&b, ", node %s of a %s cluster", e.Node, e.Cluster)
	}
	if e.ReadOnly {
		b.WriteString(", read-only")
	}
	return b.String()
}

// ReadEngine reads what kind of server db is, in two round trips. It needs no privilege. Errors match lock.ErrDown.
func ReadEngine(ctx context.Context, db *sql.DB) (Engine, error) {
	const doing = "ask what the server is"
	told := make(map[string]string)
	for _, query := range []string{
		"SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'hostname', 'port', 'read_only', 'wsrep_on'," +
			" 'wsrep_provider', 'group_replication_group_name', 'group_replication_single_primary_mode')",
		"SHOW GLOBAL STATUS WHERE Variable_name = 'wsrep_cluster_size'",
	} {
		if err := readPairs(ctx, db, query, told); err != nil {
			return Engine{}, repo.MySQLFault(ctx, doing, err)
		}
	}
	return engineOf(told), nil
}

func readPairs(ctx context.Context, db *sql.DB, query string, into map[string]string) error {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		into[strings.ToLower(name)] = value
	}
	return rows.Err()
}

// engineOf interprets a server's variables. A server may lack some of them.
func engineOf(told map[string]string) Engine {
	on := func(name string) bool { return told[name] == "ON" || told[name] == "1" }
	e := Engine{
		Version: told["version"], Node: told["hostname"] + ":" + told["port"], ReadOnly: on("read_only"),
	}
	provider := told["wsrep_provider"]
	switch {
	case strings.Contains(e.Version, "TiDB"):
		e.Cluster = TiDB
	case on("wsrep_on") && provider != "" && provider != "none":
		// A cluster of one node counts, too, because other nodes may join at any time.
		e.Cluster, e.Several = Galera, true
		e.Members, _ = strconv.Atoi(told["wsrep_cluster_size"])
	case told["group_replication_group_name"] != "":
		e.Cluster, e.Several = GroupReplication, !on("group_replication_single_primary_mode")
	}
	return e
}
