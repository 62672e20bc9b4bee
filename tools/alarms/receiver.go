package main

import (
	"encoding/json"
	"net"
	"net/http"
	"sync"
	"time"
)

// A notice is what Alertmanager sends about one alert.
type notice struct {
	Status      string // firing, resolved
	Labels      map[string]string
	Annotations map[string]string
	Fingerprint string
}

// A receiver is the webhook of an Alertmanager. It keeps which alerts fire, and which ever did.
type receiver struct {
	server *http.Server
	url    string
	served sync.WaitGroup

	mu     sync.Mutex
	firing map[string]notice // by fingerprint
	seen   map[string]notice // by name
}

func listen() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + l.Addr().String(), firing: make(map[string]notice), seen: make(map[string]notice)}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	r.served.Go(func() { _ = r.server.Serve(l) })
	return r, nil
}

func (r *receiver) close() {
	_ = r.server.Close()
	r.served.Wait()
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var message struct{ Alerts []notice }
	if err := json.NewDecoder(request.Body).Decode(&message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range message.Alerts {
		if n.Status != "firing" {
			delete(r.firing, n.Fingerprint)
			continue
		}
		r.firing[n.Fingerprint] = n
		r.seen[n.Labels["alertname"]] = n
	}
}

// alerts returns the names of the alerts that fire, and of those that ever did, with what was sent of them last.
func (r *receiver) alerts() (firing, seen map[string]notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	firing, seen = make(map[string]notice), make(map[string]notice)
	for _, n := range r.firing {
		firing[n.Labels["alertname"]] = n
	}
	for name, n := range r.seen {
		seen[name] = n
	}
	return firing, seen
}

// forget forgets which alerts have fired.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.firing, r.seen = make(map[string]notice), make(map[string]notice)
}
