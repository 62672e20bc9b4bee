package order

import "context"

// A Repairable is a ledger whose books can be compared with its records, and corrected. See package repair.
type Repairable interface {
	Book
	// Positions lists the SKUs of the ledger: see [Archivable].
	Positions(ctx context.Context, cursor string, limit int) (page []Position, next string, err error)
	// Claims returns about limit open reservations and placed orders, beginning at cursor ("": at the first), and the
	// cursor of the next page ("" after the last). A claim may be on two pages. A claim that begins or ends meanwhile
	// may be missing.
	Claims(ctx context.Context, cursor string, limit int) (page []Claim, next string, err error)
	// Correct writes c in one isolated step if the counters of the SKU are still c.Was and its last movement is still
	// c.Last. Otherwise it changes nothing and fails with ErrMoved.
	Correct(ctx context.Context, c Correction) error
}

// A Claim is an open reservation or a placed order: a record that says to whom units belong.
type Claim struct {
	ID       string
	Reserved bool // a reservation; otherwise an order
	// From is the reservation that became the order. Its id is in the movement of the order, unless the order was late.
	// "": none.
	From  string
	Lines []Line
}

// A Correction sets the counters of a SKU, and writes the movement that documents it.
type Correction struct {
	Was, Is  Level
	Last     uint64 // number of the last movement, which differs from Was.Number in damaged books; 0: none
	Movement Movement
}

// Claim returns the claim of a placed order.
func (o Order) Claim() Claim {
	return Claim{ID: o.ID, From: o.Reservation, Lines: o.Lines}
}
