package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// A ShopEvent is a movement as the relay announces it.
type ShopEvent struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data struct {
		SKU       string `json:"sku"`
		Number    uint64 `json:"number"`
		Available int64  `json:"available"`
	} `json:"data"`
}

// A Receiver is a webhook of the lab: it keeps what it was sent of the SKUs of the case, in order, and answers 204.
type Receiver struct {
	Addr string // host:port

	b      *Testbed
	server *http.Server

	mu     sync.Mutex
	refuse func(ShopEvent) int // the status of its answer; 0: 204. Nil: every event is taken
	sent   []ShopEvent         // that were taken, in the order in which they came, repeats included
	denied int
}

// Receive opens a Receiver. refuse may be nil.
func (b *Testbed) Receive(refuse func(ShopEvent) int) *Receiver {
	r := &Receiver{b: b, refuse: refuse}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	b.Must("open a webhook", err)
	r.Addr = listener.Addr().String()
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: Patience}
	b.Defer(func() { _ = r.server.Close() })
	b.Go(func(context.Context) { _ = r.server.Serve(listener) }) // until Close
	return r
}

// Webhook makes a relay send to the receiver at that address, its own or that of a proxy before it. An event that is
// refused twice is parked.
func Webhook(addr string) []string {
	return []string{
		"STOCK_RELAY_SINK=webhook", "STOCK_RELAY_WEBHOOK_URL=http://" + addr + "/events",
		"STOCK_RELAY_WEBHOOK_INTERNAL=true",
		"STOCK_RELAY_WEBHOOK_SECRETS=whsec_" + strings.Repeat("QUJD", 10), "STOCK_RELAY_ATTEMPTS=2",
	}
}

// ServeHTTP takes an event.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var e ShopEvent
	text, err := io.ReadAll(io.LimitReader(req.Body, 1<<20))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.WriteHeader(r.take(e))
}

func (r *Receiver) take(e ShopEvent) (status int) {
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
			r.b.record(Event{At: time.Now(), Lane: "receiver", Kind: Refused}, said)
			return status
		}
	}
	said := say("says.receives", "id", id)
	if slices.ContainsFunc(r.sent, func(old ShopEvent) bool { return old.ID == e.ID }) {
		said = say("says.receives-again", "id", id)
	}
	r.sent = append(r.sent, e)
	r.b.record(Event{At: time.Now(), Lane: "receiver", Kind: Write}, said)
	return http.StatusNoContent
}

// Mend makes the receiver take every event from now on.
func (r *Receiver) Mend() {
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

// Numbers returns the numbers of the events of a SKU that were taken, in the order in which they came.
func (r *Receiver) Numbers(suffix string) (numbers []uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.sent {
		if e.Data.SKU == r.b.SKU+suffix {
			numbers = append(numbers, e.Data.Number)
		}
	}
	return numbers
}

// Await waits until the receiver has the event of a SKU with that number, and returns all numbers as they came. It
// records them as evidence.
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

// Entries waits until the stream of the SKU of the case has the event with that number, records what the stream has as
// evidence, and returns the numbers in the order of the stream.
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

// Stream returns the numbers of the events in the stream of the SKU of the case, in its order, as it is now.
func (b *Testbed) Stream() (numbers []uint64) {
	entries, err := b.Redis().XRange(b.Ctx, "stock:{"+b.SKU+"}:events", "-", "+").Result()
	b.Must("XRANGE", err)
	for _, entry := range entries {
		var e ShopEvent
		text, _ := entry.Values["event"].(string)
		b.Must("decode an event", json.Unmarshal([]byte(text), &e))
		numbers = append(numbers, e.Data.Number)
	}
	return numbers
}

// Relay returns the environment of an instance that relays, under a lock whose lease is so long.
func Relay(lease time.Duration) []string {
	return []string{"STOCK_RELAY_ENABLED=true", "STOCK_LOCK_WATCHDOG_LEASE=" + lease.String()}
}

// Retire ends instances of a Shop with a relay when the case has ended: they would relay what other cases sell.
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

// Run runs the program as a person does, on the servers of the case, waits for it, and records that.
func (b *Testbed) Run(args ...string) {
	b.output(args...)
	said := say("says.runs", "args", strings.ReplaceAll(strings.Join(args, " "), b.SKU, "SKU"))
	b.prove(Answer, nil, said)
	b.note(b.Store(), said)
}

// output is what the program prints.
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
