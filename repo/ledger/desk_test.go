package ledger_test

import "testing"

// A desk is a ledger, and the connection that it is on.
type desk struct {
	books
	ledger, conn any
}

// keeps checks each clause on SKUs of its own.
func (d desk) keeps(t *testing.T, clauses []ledgerClause) {
	for _, clause := range clauses {
		t.Run(clause.name, func(t *testing.T) {
			t.Parallel()
			clause.check(t, d, newSKU(clause.name))
			if t.Failed() {
				t.Log("broken:", clause.text)
			}
		})
	}
}
