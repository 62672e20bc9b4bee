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

// An Event is one that a consumer got, in the order of arrival.
type Event struct {
	ID     string   `json:"id"`
	Type   string   `json:"type"`
	Data   Movement `json:"data"`
	Entry  string   `json:"entry,omitempty"`  // of a stream
	Repeat bool     `json:"repeat,omitempty"` // the same id has come before
}

// A Feed is where events come out.
type Feed interface {
	// Name says where, for reports.
	Name() string
	// Events returns the events of a SKU with numbers greater than after that have come so far.
	Events(ctx context.Context, sku string, after uint64) ([]Event, error)
}

// Streams reads events from Redis Streams as any consumer does who belongs to no group.
type Streams struct {
	client *redis.Client
	addr   string
}

// NewStreams returns a Feed of the Redis at addr, which is not asked yet. Close it.
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

// A Receiver is what a webhook of the relay can point at. It takes every event, and keeps them in the order in which
// they came. It believes what comes without a look at the signature: docs/examples/consumer shows how one does that.
type Receiver struct {
	listener net.Listener
	server   *http.Server
	served   chan struct{}
	answer   func(Event) int

	mu     sync.Mutex
	events map[string][]Event // by SKU
	seen   map[string]bool    // the ids that have come
}

// maxEvent is the longest event that a Receiver takes, in bytes.
const maxEvent = 1 << 20

// NewReceiver listens on addr, such as 127.0.0.1:9999, and takes events on every path. Close it. answer returns the
// status with which an event is answered; the receiver keeps those that are answered 204. It is called for one event at
// a time, with Repeat set. A nil answer takes all.
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

// receive answers 204 when the event is kept, and not before: the relay sends one again that was not answered.
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

// Events returns what has come. An event may come again: delivery is at least once.
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
	return e, nil
}

// isEventID reports whether the event of a movement may have that id: the SKU and the number, and what tells it from
// other movements with that number, of a store that was restored. What that is, is the service's own.
func isEventID(id string, m *Movement) bool {
	place := fmt.Sprintf("%s/%d", strings.ReplaceAll(m.SKU, ".", "~"), m.Number)
	return id == place || strings.HasPrefix(id, place+"/")
}
