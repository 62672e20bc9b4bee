package relay

import (
	"log/slog"
	"strconv"
	"testing"

	"example.com/stock/service"
)

// What was delivered last is remembered of a bounded number of SKUs: one more, and all are forgotten but that. A later
// event of one that is known forgets none.
func TestWhatAWebhookRemembersIsBounded(t *testing.T) {
	w := &Webhook{log: slog.New(slog.DiscardHandler), last: make(map[service.SKU]Event)}
	note := func(i int, number uint64) {
		var e Event
		e.Data.SKU, e.Data.Number = service.SKU(strconv.Itoa(i)), number
		w.note(e)
	}
	for i := range maxLast {
		note(i, 1)
	}
	note(0, 2)
	if len(w.last) != maxLast || w.last["0"].Data.Number != 2 {
		t.Errorf("%d are remembered, the first with number %d", len(w.last), w.last["0"].Data.Number)
	}
	note(maxLast, 1)
	if len(w.last) != 1 {
		t.Errorf("one more: %d are remembered", len(w.last))
	}
}
