package lab

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

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

// Webhook returns the environment of a relay that sends to the receiver at addr, or to a proxy in front of it. The
// relay parks an event after two refusals.
func Webhook(addr string) []string {
	return []string{
		"STOCK_RELAY_SINK=webhook", "STOCK_RELAY_WEBHOOK_URL=http://" + addr + "/events",
		"STOCK_RELAY_WEBHOOK_INTERNAL=true",
		"STOCK_RELAY_WEBHOOK_SECRETS=whsec_" + strings.Repeat("QUJD", 10), "STOCK_RELAY_ATTEMPTS=2",
	}
}

// answer records an event, and returns the status of the reply.
func (r *Receiver) answer(e checkout.Event) (status int) {
	if !strings.HasPrefix(e.Data.SKU, r.b.SKU) { // of another case with the same store
		return http.StatusNoContent
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s/%d", strings.ReplaceAll(e.Data.SKU, r.b.SKU, "SKU"), e.Data.Number)
	if r.refuse != nil {
		if status = r.refuse(e); status != 0 {
			r.denied++
			said := say("says.turns-down", "id", id, "status", status)
			r.b.record(CaseEvent{At: time.Now(), Lane: "receiver", Kind: Refused}, said)
			return status
		}
	}
	said := say("says.receives", "id", id)
	if e.Repeat {
		said = say("says.receives-again", "id", id)
	}
	r.b.record(CaseEvent{At: time.Now(), Lane: "receiver", Kind: Write}, said)
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
func (r *Receiver) Numbers(suffix string) []uint64 { return r.b.numbers(r, suffix) }

// numbers returns the numbers of a SKU's events in feed, in its order.
func (b *Testbed) numbers(feed checkout.Feed, suffix string) (numbers []uint64) {
	events, err := feed.Events(b.Ctx, b.SKU+suffix, 0)
	b.Must("read the events", err)
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
	r.b.prove(Served, numbers, say("says.taken", "list", listed(suffix, numbers)))
	return numbers
}

func listed(suffix string, numbers []uint64) string {
	parts := make([]string, len(numbers))
	for i, n := range numbers {
		parts[i] = fmt.Sprintf("SKU%s/%d", suffix, n)
	}
	return strings.Join(parts, ", ")
}

// Entries waits until the stream of the case's SKU has the event with that number. It returns all numbers in order of
// the stream, and records them as evidence.
func (b *Testbed) Entries(number uint64) (numbers []uint64) {
	b.Eventually(fmt.Sprintf("the stream has event %d", number), func() bool {
		numbers = b.Stream()
		return slices.Contains(numbers, number)
	})
	said := say("says.entries", "list", listed("", numbers))
	b.prove(Served, numbers, said)
	b.note("redis", said)
	return numbers
}

// Stream reads the numbers of the events in the stream of the case's SKU, in its order.
func (b *Testbed) Stream() []uint64 {
	streams := checkout.NewStreams(b.Server(NeedRedis).Addr)
	defer func() { _ = streams.Close() }()
	return b.numbers(streams, "")
}

// Relay returns the environment of an instance that relays under a lock with that lease.
func Relay(lease time.Duration) []string {
	return []string{"STOCK_RELAY_ENABLED=true", "STOCK_LOCK_WATCHDOG_LEASE=" + lease.String()}
}

// Retire makes the end of the case end the Shop's instances, because their relay would relay the sales of other cases.
func (s *Shop) Retire() {
	s.b.Defer(func() {
		for _, app := range s.Apps {
			app.frozen = false
			_ = app.Kill()
		}
	})
}

// Parked reports whether the relay has parked an event of the SKU of the case.
func (b *Testbed) Parked() bool { return strings.Contains(b.output("relay", "dead"), b.SKU+"/") }

// Run runs the program on the servers of the case, as an operator would, waits for it, and records that.
func (b *Testbed) Run(args ...string) {
	b.output(args...)
	said := say("says.runs", "args", strings.ReplaceAll(strings.Join(args, " "), b.SKU, "SKU"))
	b.prove(Answer, nil, said)
	b.note(b.Store(), said)
}

// output runs the program and returns its output.
func (b *Testbed) output(args ...string) string {
	program := b.o.Binary
	if program == "" {
		own, err := os.Executable()
		b.Must("find the stock program", err)
		program = own
	}
	cmd := exec.CommandContext(b.Ctx, program, args...)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "STOCK_") }),
		append(b.fleet.stack.Env(), "STOCK_STORE="+b.Store())...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("stock %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
