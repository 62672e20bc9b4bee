package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
)

// An Event is an event as a consumer received it.
type Event struct {
	ID     string   `json:"id"` // SKU.number
	Data   Movement `json:"data"`
	Repeat bool     `json:"repeat,omitempty"` // an event with this id came before
}

// A Feed is a place from which consumers read events.
type Feed interface {
	// Name returns the address, for reports.
	Name() string
	// Events returns the events of a SKU with numbers greater than after that have arrived so far.
	Events(ctx context.Context, sku string, after uint64) ([]Event, error)
}

// An inbox keeps events by SKU, in order of arrival.
type inbox struct {
	events map[string][]Event
	seen   map[string]bool // ids that have arrived
}

func newInbox() inbox { return inbox{make(map[string][]Event), make(map[string]bool)} }

func (b *inbox) put(e Event) {
	b.seen[e.ID] = true
	b.events[e.Data.SKU] = append(b.events[e.Data.SKU], e)
}

func (b *inbox) after(sku string, number uint64) (list []Event) {
	for _, e := range b.events[sku] {
		if e.Data.Number > number {
			list = append(list, e)
		}
	}
	return list
}

// A Stream reads events from a Redis Stream like a consumer without a group.
type Stream struct {
	client     *redis.Client
	addr, name string

	mu    sync.Mutex
	last  string // the id of the last entry that was read
	inbox inbox
}

// NewStream returns a Feed of the stream of that name in the Redis at addr. It does not connect. The caller must close
// it.
func NewStream(addr, name string) *Stream {
	return &Stream{
		client: redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}), addr: addr, name: name,
		last: "-", inbox: newInbox(),
	}
}

// Name returns the address.
func (s *Stream) Name() string { return "redis://" + s.addr + "/" + s.name }

// Close closes the connections.
func (s *Stream) Close() error { return s.client.Close() }

// streamPage is how many entries are read at a time.
const streamPage = 1000

// Events reads what is new in the stream.
func (s *Stream) Events(ctx context.Context, sku string, after uint64) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		page, err := s.client.XRangeN(ctx, s.name, s.last, "+", streamPage).Result()
		if err != nil {
			return nil, &loadtest.TargetError{URL: s.Name(), Err: err}
		}
		for _, entry := range page {
			id, _ := entry.Values["id"].(string)
			text, _ := entry.Values["event"].(string)
			e, err := decodeEvent(id, []byte(text))
			if err != nil {
				return nil, &loadtest.TargetError{URL: s.Name(), Err: fmt.Errorf("entry %s: %w", entry.ID, err)}
			}
			e.Repeat = s.inbox.seen[e.ID]
			s.inbox.put(e)
			s.last = "(" + entry.ID
		}
		if len(page) < streamPage {
			return s.inbox.after(sku, after), nil
		}
	}
}

// A Receiver is a webhook for the events. It stores them in order of arrival. It does not check signatures;
// docs/examples/consumer shows how to do that.
type Receiver struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}
	answer   func(Event) int

	mu    sync.Mutex
	inbox inbox
}

// maxEvent is the longest event that is read, in bytes. An event of one movement has some hundred.
const maxEvent = 64 << 10

// NewReceiver listens on addr, such as 127.0.0.1:9999, and accepts events on every path. The caller must close it.
// answer returns the status of the reply to an event, of which Repeat is set; the receiver stores events with status
// 204. answer is called for one event at a time. If it is nil, all events are accepted.
func NewReceiver(addr string, answer func(Event) (status int)) (*Receiver, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	r := &Receiver{
		listener: listener, served: make(chan struct{}), inbox: newInbox(), answer: answer,
	}
	if answer == nil {
		r.answer = func(Event) int { return http.StatusNoContent }
	}
	r.server = &http.Server{Handler: http.HandlerFunc(r.receive), ReadTimeout: 10 * time.Second}
	go func() {
		defer close(r.served)
		_ = r.server.Serve(listener) // until Close
	}()
	return r, nil
}

// Name returns the address.
func (r *Receiver) Name() string { return "http://" + r.listener.Addr().String() }

// Close stops listening, and ends the connections.
func (r *Receiver) Close() error {
	err := r.server.Close()
	<-r.served
	return err
}

// receive replies 204 only after it has stored the event, because the service repeats an event without a reply. An id
// of the standard for webhooks has no dots, and no SKU has a "~".
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxEvent))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e, err := decodeEvent(strings.ReplaceAll(req.Header.Get("Webhook-Id"), "~", "."), text)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	e.Repeat = r.inbox.seen[e.ID]
	status := r.answer(e)
	if status == http.StatusNoContent {
		r.inbox.put(e)
	}
	r.mu.Unlock()
	w.WriteHeader(status)
}

// Events returns the events that have arrived, with repeats: delivery is at least once.
func (r *Receiver) Events(_ context.Context, sku string, after uint64) (list []Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inbox.after(sku, after), nil
}

func decodeEvent(id string, text []byte) (Event, error) {
	switch {
	case len(text) > maxEvent:
		return Event{}, fmt.Errorf("it has %d bytes, more than the %d of an event", len(text), maxEvent)
	case id == "":
		return Event{}, errors.New("it has no id")
	}
	e := Event{ID: loadtest.Clip(id)}
	if err := json.Unmarshal(text, &e.Data); err != nil {
		return e, fmt.Errorf("decode an event: %w", err)
	}
	e.Data = e.Data.bounded()
	return e, nil
}

// eventID returns the id of the event of a movement.
func eventID(m *Movement) string { return fmt.Sprintf("%s.%d", m.SKU, m.Number) }
