package mapping_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A stepShop sells in steps: a cart, a line in it, the checkout, and, if it decides later, an order that is pending
// until somebody has asked twice what became of it. It keeps its promises; a cheat, or a fault, changes one thing.
type stepShop struct {
	holds bool // a line in a cart holds its units, which no other cart then gets
	later bool // the checkout does not say what became of the order

	cheat   func(s *stepShop, step string, n int) bool // whether the n-th request of that step is served in its own way
	own     func(s *stepShop, c *stepCart, w http.ResponseWriter)
	trouble func(step string, n int) string // "": none; "cut", "serve and cut", "fail", "busy"
	list    func(s *stepShop, w http.ResponseWriter, r *http.Request, all []string) bool

	mu      sync.Mutex
	onHand  int64
	held    int64 // by carts; what is sold is not on hand
	carts   map[string]*stepCart
	orders  []*stepCart
	served  map[string]int
	listing int
}

// A stepCart is a cart, and then the order that it became.
type stepCart struct {
	id, note, state string
	units           int64
	asked           int
	at              time.Time
}

const stepMapping = `
name: steps
late: 200ms
ids: {shirt: {variant: v_17}}
busy: {status: 429, wait: 1ms}
set:
  steps:
    - {method: GET, path: "/stock/{{variant}}", save: {held: reserved}}
    - {path: "/stock/{{variant}}", body: {on_hand: "{{quantity+held:number}}"}}
read: {path: "/stock/{{variant}}", quantity: on_hand, less: reserved}
deduct:
  steps:
    - {name: cart, path: /carts, save: {cart: "header:Cart-Token"}}
    - name: line
      path: /carts/{{cart}}/lines
      body: {variant: "{{variant}}", count: "{{quantity:number}}"}
      sold_out: {status: 400, field: code, contains: stock}
    - {name: checkout, sells: true, path: "/carts/{{cart}}/checkout", body: {note: "{{request_id}}"},
       ` + stepDecides + `, order_id: id, save: {order: id}}
    - {name: wait, method: GET, path: "/orders/{{order}}",
       repeat: {while: {field: state, equals: pending}, every: 10ms, for: 2s},
       accepted: {field: state, equals: confirmed}, sold_out: {field: state, equals: rejected}}
orders:
  path: /orders?offset={{offset}}
  list: orders
  next: {total: count}
  where: {field: state, not: rejected}
  order_id: id
  quantity: lines[variant={{variant}}].count
  request_id: note
`

// What the checkout of the mapping above says: that the order is taken, or that it is sold.
const (
	stepDecides = "pending: {status: 202}"
	stepSells   = "accepted: {status: 201}, sold_out: {status: 400, field: code, contains: stock}"
)

func (s *stepShop) mapping() string {
	if s.later {
		return stepMapping
	}
	return strings.Replace(stepMapping, stepDecides, stepSells, 1)
}

// left returns the units that nobody has, or holds.
func (s *stepShop) left() int64 { return s.onHand - s.held }

func (s *stepShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	step, id := strings.Trim(r.URL.Path, "/"), ""
	if first, rest, deeper := strings.Cut(step, "/"); deeper {
		id, step, _ = strings.Cut(rest, "/")
		step = first + strings.Replace("/"+step, "/", " ", 1)
	}
	step = strings.TrimSpace(r.Method + " " + step)
	if step == "GET orders" && id != "" {
		step = "GET order"
	}
	s.mu.Lock()
	if s.served == nil {
		s.served, s.carts = make(map[string]int), make(map[string]*stepCart)
	}
	s.served[step]++
	n := s.served[step]
	trouble := ""
	if s.trouble != nil {
		trouble = s.trouble(step, n)
	}
	s.mu.Unlock()
	switch trouble {
	case "busy":
		w.WriteHeader(http.StatusTooManyRequests)
		return
	case "fail":
		w.WriteHeader(http.StatusInternalServerError)
		return
	case "cut":
		panic(http.ErrAbortHandler)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if trouble == "serve and cut" {
		s.serve(step, id, n, nowhere{}, r)
		panic(http.ErrAbortHandler)
	}
	s.serve(step, id, n, w, r)
}

// nowhere is where the reply of a connection goes that is cut.
type nowhere struct{}

func (nowhere) Header() http.Header            { return make(http.Header) }
func (nowhere) Write(text []byte) (int, error) { return len(text), nil }
func (nowhere) WriteHeader(int)                {}

func (s *stepShop) serve(step, id string, n int, w http.ResponseWriter, r *http.Request) {
	c := s.carts[id]
	if s.cheat != nil && c != nil && s.cheat(s, step, n) {
		if step == "POST carts checkout" {
			c.note = noteOf(r)
		}
		s.own(s, c, w)
		return
	}
	switch step {
	case "GET stock":
		fmt.Fprintf(w, `{"on_hand":%d,"reserved":%d}`, s.onHand+2, s.held+2) // two are always held for somebody else
	case "POST stock":
		var in struct {
			OnHand int64 `json:"on_hand"`
		}
		_ = json.NewDecoder(r.Body).Decode(&in)
		s.onHand = in.OnHand - 2
	case "POST carts":
		c = &stepCart{id: "c" + strconv.Itoa(len(s.carts)+1), at: time.Now()}
		s.carts[c.id] = c
		w.Header().Set("Cart-Token", c.id)
		w.WriteHeader(http.StatusCreated)
	case "POST carts lines":
		var in struct{ Count int64 }
		_ = json.NewDecoder(r.Body).Decode(&in)
		if s.left() < in.Count {
			soldOut(w)
			return
		}
		c.units = in.Count
		if s.holds {
			s.held += in.Count
		}
	case "POST carts checkout":
		c.note = noteOf(r)
		s.sell(c)
		s.told(c, w)
	case "GET orders":
		s.orderList(w, r)
	case "GET order":
		state := c.state
		if c.asked++; c.asked < 2 && s.later {
			state = "pending"
		}
		fmt.Fprintf(w, `{"state":%q}`, state)
	}
}

func noteOf(r *http.Request) string {
	var in struct{ Note string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	return in.Note
}

func soldOut(w http.ResponseWriter) {
	w.WriteHeader(http.StatusBadRequest)
	fmt.Fprint(w, `{"code":"out_of_stock"}`)
}

// sell makes an order of a cart, which is rejected if there is too little.
func (s *stepShop) sell(c *stepCart) {
	c.state = "confirmed"
	if s.holds {
		s.held -= c.units
	}
	if s.left() < c.units {
		c.state = "rejected"
	} else {
		s.onHand -= c.units
	}
	s.orders = append(s.orders, c)
}

// told tells of the order that a cart became.
func (s *stepShop) told(c *stepCart, w http.ResponseWriter) {
	switch {
	case s.later:
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id":%q}`, c.id)
	case c.state == "rejected":
		soldOut(w)
	default:
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":%q}`, c.id)
	}
}

func (s *stepShop) orderList(w http.ResponseWriter, r *http.Request) {
	s.listing++
	var all []string
	for _, o := range s.orders {
		all = append(all, fmt.Sprintf(`{"id":%q,"state":%q,"lines":[{"variant":"v_17","count":%d}],"note":%q}`, o.id,
			o.state, o.units, o.note))
	}
	if s.list != nil && s.list(s, w, r, all) {
		return
	}
	page(w, r, all, 7)
}

// page writes at most size entries of a list.
func page(w http.ResponseWriter, r *http.Request, all []string, size int) {
	from, _ := strconv.Atoi(r.FormValue("offset"))
	from = min(from, len(all))
	fmt.Fprintf(w, `{"orders":[%s],"count":%d}`, strings.Join(all[from:min(from+size, len(all))], ","), len(all))
}
