package checkout

import (
	"context"
	"encoding/json"
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
	ID     string   `json:"id"`
	Type   string   `json:"type"`
	Data   Movement `json:"data"`
	Entry  string   `json:"entry,omitempty"`  // id of the stream's entry
	Repeat bool     `json:"repeat,omitempty"` // an event with this id came before
}

// A Feed is a place from which consumers read events.
type Feed interface {
	// Name returns the address, for reports.
	Name() string
	// Events returns the events of a SKU with numbers greater than after that have arrived so far.
	Events(ctx context.Context, sku string, after uint64) ([]Event, error)
}

// Streams reads events from Redis Streams like a consumer without a group.
type Streams struct {
	client *redis.Client
	addr   string
}

// NewStreams returns a Feed of the Redis at addr. It does not connect. The caller must close it.
func NewStreams(addr string) *Streams {
	return &Streams{redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}), addr}
}

// Name returns the address.
func (s *Streams) Name() string { return "redis://" + s.addr }

// Close closes the connections.
func (s *Streams) Close() error { return s.client.Close() }

// streamPage is how many entries are read at a time.
const streamPage = 1000

// Events reads the whole stream of a SKU from after on.
func (s *Streams) Events(ctx context.Context, sku string, after uint64) ([]Event, error) {
	var list []Event
	from := fmt.Sprintf("(%d-0", after)
	for {
		page, err := s.client.XRangeN(ctx, "stock:{"+sku+"}:events", from, "+", streamPage).Result()
		if err != nil {
			return nil, &loadtest.TargetError{URL: s.Name(), Err: err}
		}
		for _, entry := range page {
			text, _ := entry.Values["event"].(string)
			if len(text) > maxEvent {
				err := fmt.Errorf("entry %s of %s has %d bytes, more than the %d of an event", entry.ID, sku, len(text),
					maxEvent)
				return nil, &loadtest.TargetError{URL: s.Name(), Err: err}
			}
			e, err := decodeEvent([]byte(text))
			if err != nil {
				err = fmt.Errorf("entry %s of %s: %w", entry.ID, sku, err)
				return nil, &loadtest.TargetError{URL: s.Name(), Err: err}
			}
			e.Entry = entry.ID
			list = append(list, e)
		}
		if len(page) < streamPage {
			return list, nil
		}
		from = "(" + page[len(page)-1].ID
	}
}

// A Receiver is a target for the relay's webhook. It stores events in order of arrival. It does not check signatures;
// docs/examples/consumer shows how to do that.
type Receiver struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}
	answer   func(Event) int

	mu     sync.Mutex
	events map[string][]Event // by SKU
	seen   map[string]bool    // ids that have arrived
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
		listener: listener, served: make(chan struct{}), events: make(map[string][]Event), seen: make(map[string]bool),
		answer: answer,
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

// receive replies 204 only after it has stored the event, because the relay repeats an event without a reply.
func (r *Receiver) receive(w http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxEvent))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	e, err := decodeEvent(text)
	if err != nil || e.ID == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	e.Entry, e.Repeat = "", r.seen[e.ID]
	status := r.answer(e)
	if status == http.StatusNoContent {
		r.seen[e.ID] = true
		r.events[e.Data.SKU] = append(r.events[e.Data.SKU], e)
	}
	r.mu.Unlock()
	w.WriteHeader(status)
}

// Events returns the events that have arrived, with repeats: delivery is at least once.
func (r *Receiver) Events(_ context.Context, sku string, after uint64) (list []Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events[sku] {
		if e.Data.Number > after {
			list = append(list, e)
		}
	}
	return list, nil
}

func decodeEvent(text []byte) (e Event, err error) {
	if err := json.Unmarshal(text, &e); err != nil {
		return e, fmt.Errorf("decode an event: %w", err)
	}
	e.ID, e.Type, e.Data = loadtest.Clip(e.ID), loadtest.Clip(e.Type), e.Data.bounded()
	return e, nil
}

// isEventID reports whether the event of a movement may have that id: the SKU, the number, and an opaque part that
// distinguishes movements with the same number in a restored store.
func isEventID(id string, m *Movement) bool {
	place := fmt.Sprintf("%s/%d", strings.ReplaceAll(m.SKU, ".", "~"), m.Number)
	return id == place || strings.HasPrefix(id, place+"/")
}
