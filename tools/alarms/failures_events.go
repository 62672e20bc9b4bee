package main

import (
	"fmt"
	"net/http"
	"strings"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest/checkout"
)

// relaying are the settings of an order service that sends its events to the receiver of the bed.
func relaying(attempts int) func(*bed) []string {
	return func(b *bed) []string {
		receiver, err := checkout.NewReceiver("127.0.0.1:0", func(e checkout.Event) int {
			if e.Data.Number >= 2 {
				return int(b.answer.Load())
			}
			return http.StatusNoContent
		})
		b.must("open a webhook", err)
		b.after(func() { _ = receiver.Close() })
		b.answer.Store(http.StatusNoContent)
		return append(shop("mysql"), "STOCK_RELAY_ENABLED=true", "STOCK_RELAY_SINK=webhook",
			"STOCK_RELAY_WEBHOOK_URL="+receiver.Name()+"/events", "STOCK_RELAY_WEBHOOK_INTERNAL=true",
			"STOCK_RELAY_WEBHOOK_SECRETS=whsec_"+strings.Repeat("QUJD", 10),
			fmt.Sprint("STOCK_RELAY_ATTEMPTS=", attempts))
	}
}

// answers makes the receiver reply with a status from now on.
func answers(status int) func(*bed) { return func(b *bed) { b.answer.Store(int32(status)) } }

func events() []*failure {
	both := []stack.Kind{stack.Redis, stack.MySQL}
	return []*failure{
		{
			Name: "receiver-down", Needs: both, Env: relaying(20), Prepare: filled(""),
			Make: func(b *bed) {
				answers(http.StatusBadGateway)(b)
				b.ordered(b.apps[0])
			},
			Mend:  answers(http.StatusNoContent),
			Fires: []string{"StockRelayBehind"}, Confirms: "stock_relay_undelivered 1",
		},
		{
			Name: "poison-event", Needs: both, Env: relaying(2), Prepare: filled(""),
			Make: func(b *bed) {
				answers(http.StatusUnprocessableEntity)(b)
				b.ordered(b.apps[0])
			},
			Mend: func(b *bed) {
				answers(http.StatusNoContent)(b)
				b.does("stock relay retry book", "book/17", sku+"/2")
			},
			Fires: []string{"StockEventsParked", "StockRelayBehind"}, Confirms: sku + "/2",
		},
		{
			Name: "reservation-overdue", Needs: both, Env: ordersIn("mysql"), Prepare: filled(""),
			Make: func(b *bed) {
				const cart = `{"customer":"c","lines":[{"sku":"` + sku + `","quantity":1}],"ttl":"1h"}`
				status, err := b.post(http.DefaultClient, b.apps[0].URL+"/v1/reservations", cart)
				b.must("reserve", err)
				if status != http.StatusCreated {
					b.fatalf("a reservation was answered %d", status)
				}
				// Somebody gives the unit back by hand. Then its time is over.
				b.sql("UPDATE stock SET quantity = quantity + 1, reserved = 0")
				b.sql("UPDATE reservations SET expires_at = UTC_TIMESTAMP(6)")
			},
			Mend:  func(b *bed) { b.does("stock audit --apply", " --believe book=counters", "") },
			Fires: []string{"StockReservationsOverdue"}, Also: "books-do-not-balance",
			Confirms: "stock_reservations_overdue 1", Fails: "stock audit",
		},
		{
			Name: "relay-without-its-lock", Needs: both, Env: relaying(20), Prepare: filled(""),
			Make: kill("redis"), Mend: start("redis"),
			Fires: []string{"StockNoRelay", "StockStoreDown"}, Confirms: "stock_relay_active 0",
			Fails: "stock lock ls", // it asks the server that is down
		},
	}
}
