// Command shop is a small inventory service that oversells: it reads the stock, thinks, and writes, without a lock.
// With -fixed it has one.
package main

import (
	"crypto/rand"
	"encoding/json"
	"flag"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

const think = 3 * time.Millisecond // about the price, the customer, the weather

type order struct {
	ID     string `json:"id"`
	Count  int    `json:"count"`
	Ref    string `json:"ref"`
	Before int    `json:"before"`
	After  int    `json:"after"`
}

// A shop is a handler. Each of its statements is safe, as those of a database are; two statements in a row are not.
type shop struct {
	fixed  bool
	one    sync.Mutex // held for a whole sale, if fixed
	mu     sync.Mutex // held for a statement
	stock  map[string]int
	orders map[string][]order
}

func (s *shop) read(sku string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stock[sku]
}

func (s *shop) write(sku string, left int, sold ...order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stock[sku] = left
	s.orders[sku] = append(s.orders[sku], sold...)
}

func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	o := order{}
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.Count < 1 {
		http.Error(w, "how many?", http.StatusBadRequest)
		return
	}
	if s.fixed {
		s.one.Lock()
		defer s.one.Unlock()
	}
	sku := r.PathValue("sku")
	o.Before = s.read(sku)
	if o.After = o.Before - o.Count; o.After < 0 {
		http.Error(w, `{"error":"sold out"}`, http.StatusConflict)
		return
	}
	time.Sleep(think)
	o.ID = rand.Text()
	s.write(sku, o.After, o)
	json.NewEncoder(w).Encode(o)
}

func newShop(fixed bool) http.Handler {
	s := &shop{fixed: fixed, stock: make(map[string]int), orders: make(map[string][]order)}
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /items/{sku}", func(_ http.ResponseWriter, r *http.Request) {
		var in struct{ Stock int }
		json.NewDecoder(r.Body).Decode(&in)
		s.write(r.PathValue("sku"), in.Stock)
	})
	mux.HandleFunc("GET /items/{sku}", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]int{"stock": s.read(r.PathValue("sku"))})
	})
	mux.HandleFunc("GET /items/{sku}/orders", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		json.NewEncoder(w).Encode(s.orders[r.PathValue("sku")])
	})
	mux.HandleFunc("POST /items/{sku}/buy", s.buy)
	return mux
}

func main() {
	fixed := flag.Bool("fixed", false, "lock each sale")
	addr := flag.String("addr", "localhost:9000", "address to listen on")
	flag.Parse()
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("the shop sells at http://%s", listener.Addr())
	server := http.Server{Handler: newShop(*fixed), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.Serve(listener))
}
