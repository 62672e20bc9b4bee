package lab

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest/checkout"
)

// A Receiver is a webhook of the lab for the events of the SKUs of the case.
type Receiver struct {
	*checkout.Receiver

	b      *Testbed
	mu     sync.Mutex
	refuse func(checkout.Event) int // returns the status of the reply, 0 for 204; nil: accept every event
	denied int
}

// Receive opens a Receiver. refuse may be nil.
func (b *Testbed) Receive(refuse func(checkout.Event) int) *Receiver {
	r := &Receiver{b: b, refuse: refuse}
	receiver, err := checkout.NewReceiver("127.0.0.1:0", r.answer)
	b.Must("open a webhook", err)
	r.Receiver = receiver
	b.Defer(func() { _ = receiver.Close() })
	return r
}

// Addr is host:port.
func (r *Receiver) Addr() string { return strings.TrimPrefix(r.Name(), "http://") }

// Webhook returns the environment of an instance that sends events to the receiver at addr, or to a proxy in front of
// it.
func Webhook(addr string) []string {
	return []string{
		"ORDERS_OUTBOX_SINK=webhook", "ORDERS_OUTBOX_WEBHOOK_URL=http://" + addr + "/events",
		"ORDERS_OUTBOX_PRIVATE=true", "ORDERS_OUTBOX_WEBHOOK_SECRETS=whsec_" + strings.Repeat("QUJD", 10),
	}
}

// answer records an event, and returns the status of the reply.
func (r *Receiver) answer(e checkout.Event) (status int) {
	if !strings.HasPrefix(e.Data.SKU, r.b.SKU) { // of another case with the same store
		return http.StatusNoContent
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s.%d", strings.ReplaceAll(e.Data.SKU, r.b.SKU, "SKU"), e.Data.Number)
	if r.refuse != nil {
		if status = r.refuse(e); status != 0 {
			r.denied++
			said := say("says.turns-down", "id", id, "status", status)
			r.b.timeline.Record(CaseEvent{Lane: "receiver", Kind: Refused}, said)
			return status
		}
	}
	said := say("says.receives", "id", id)
	if e.Repeat {
		said = say("says.receives-again", "id", id)
	}
	r.b.timeline.Record(CaseEvent{Lane: "receiver", Kind: Write}, said)
	return http.StatusNoContent
}

// Accept makes the receiver accept every event from now on.
func (r *Receiver) Accept() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = nil
}

// Denied returns how many events were refused so far.
func (r *Receiver) Denied() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.denied
}

// Numbers returns the numbers of the accepted events of a SKU, in order of arrival.
func (r *Receiver) Numbers(suffix string) (numbers []uint64) {
	events, err := r.Events(r.b.Ctx, r.b.SKU+suffix, 0)
	r.b.Must("read the events", err)
	for _, e := range events {
		numbers = append(numbers, e.Data.Number)
	}
	return numbers
}

// Await waits until the receiver has the event of a SKU with that number. It returns all numbers in order of arrival,
// and records them as evidence.
func (r *Receiver) Await(suffix string, number uint64) []uint64 {
	r.b.Eventually(fmt.Sprintf("the receiver has event %d", number), func() bool {
		return slices.Contains(r.Numbers(suffix), number)
	})
	numbers := r.Numbers(suffix)
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = fmt.Sprintf("SKU%s.%d", suffix, n)
	}
	r.b.prove(Served, numbers, say("says.taken", "list", strings.Join(parts, ", ")))
	return numbers
}

// Retire makes the end of the case end the Shop's instances, because their relays would relay the sales of other cases.
// What such cases have left in the outbox is removed first.
func (s *Shop) Retire() {
	db := s.b.open(stack.OrdersDSN(s.b.Server(NeedMySQL).URL))
	_, err := db.ExecContext(s.b.Ctx, "DELETE FROM outbox")
	s.b.Must("empty the outbox", err)
	s.b.Defer(func() {
		for _, app := range s.Apps {
			app.frozen = false
			_ = app.Kill()
		}
	})
}
