package stack_test

import (
	"database/sql"
	"testing"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// What one node of a cluster has committed is on the others, also on one that was killed and comes back.
func TestGalera(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	g := stacktest.Galera(t, 3)
	query(t, g.Nodes[0], "CREATE TABLE numbers (n INT PRIMARY KEY)")
	query(t, g.Nodes[1], "INSERT INTO numbers VALUES (1)")
	if got := query(t, g.Nodes[2], "SELECT COUNT(*) FROM numbers"); got != "1" {
		t.Errorf("the third node has %s rows, want 1", got)
	}
	if err := g.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	query(t, g.Nodes[0], "INSERT INTO numbers VALUES (2)")
	if err := g.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query(t, g.Nodes[1], "SELECT COUNT(*) FROM numbers"); got != "2" {
		t.Errorf("the node that was killed has %s rows, want 2", got)
	}
}

// query runs a statement, and returns the first value of its reply. Reads wait for what the other nodes have committed.
func query(t *testing.T, node *stack.Server, statement string) (value string) {
	t.Helper()
	db, err := sql.Open("mysql", node.URL+"?wsrep_sync_wait=1")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatalf("%s on %s: %v", statement, node.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&value); err != nil {
			t.Fatal(err)
		}
	}
	return value
}
