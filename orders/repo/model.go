package repo

import (
	"time"

	"example.com/stock/orders/service"
)

// Most rows are types of package service: Stock, Movement, Order, Reservation. These are the others.

type cartLine struct {
	OwnerID string // an order or a reservation
	service.Line
}

type idempotencyKey struct {
	ID          []byte
	Fingerprint []byte
	Reply       []byte // a service.Result as JSON
	CreatedAt   time.Time
}

// An event is a row of the outbox.
type event struct {
	ID       int64
	SKU      string
	Number   int64
	Body     []byte // a service.Movement as JSON
	Due      time.Time
	Refusals int
	Reason   string
}

func (event) TableName() string { return "outbox" }

// lockedStock is a row and the time when it was locked.
type lockedStock struct {
	service.Stock
	Now time.Time `gorm:"->"`
}

func linesOf(ownerID string, lines []service.Line) []cartLine {
	rows := make([]cartLine, len(lines))
	for i, l := range lines {
		rows[i] = cartLine{ownerID, l}
	}
	return rows
}
