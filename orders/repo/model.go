package repo

import (
	"time"

	"example.com/stock/orders/service"
)

// Most rows are types of package service: Stock, Movement, Order, Reservation, Event. These are the others.

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
