package main

import (
	"fmt"
	"slices"

	"example.com/stock/internal/stack"
)

// The rows that are no endpoint of the service.
const (
	ping   = "ping"
	noHTTP = "store" // the store without HTTP
	// orders are those of customers, as profile orders makes them: each with a customer, an idempotency key and an
	// event, and those that wait in one transaction.
	orders = "orders/mysql"
	// proven orders come with a token each, of one of some customers; limited ones count against the customer's rate,
	// too. Both are measured on instances of their own, with auth=tokens.
	proven  = "orders/mysql+tokens"
	limited = "orders/mysql+tokens+rates"
)

// ofOrders reports whether a row sells orders of customers.
func ofOrders(name string) bool { return name == orders || name == proven || name == limited }

// storeOfOrders is the setting of the instances for the row orders. Each of the other rows names its store.
const storeOfOrders = "STOCK_STORE=mysql"

// A row is an endpoint, on one store.
type row struct {
	name, strategy, store string
	needs                 stack.Kind // besides Redis
	refuses               bool       // its refusals are measured, too
	due                   bool       // p99 is measured with requests that are due at a time, too
}

func rows() []row {
	return []row{
		{"merged/mysql", "merged", "mysql", stack.MySQL, true, true},
		{traced, "merged", "mysql", stack.MySQL, false, false},
		{"atomic/mysql", "atomic", "mysql", stack.MySQL, true, true},
		{orders, "", "mysql", stack.MySQL, false, false},
		{proven, "", "mysql", stack.MySQL, false, false},
		{limited, "", "mysql", stack.MySQL, false, false},
		{"merged/redis", "merged", "redis", "", true, false},
		{"atomic/redis", "atomic", "redis", "", true, false},
		{"zk-merged", "zk-merged", "redis", stack.ZooKeeper, false, false},
		{"zk-sequential", "zk-sequential", "redis", stack.ZooKeeper, false, false},
		{ping, "", "", "", false, false},
		{noHTTP, "", "mysql", stack.MySQL, false, false},
	}
}

func rowNames() []string {
	var names []string
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

// The ways in which a row is loaded.
const (
	sold    = "sold"    // wrk, closed loop, more in stock than can be sold
	refused = "refused" // the same with nothing in stock
	due     = "due"     // the project's own generator, open loop
	loop    = "loop"    // callers in a process, without HTTP
)

// A job is what is measured once in each round.
type job struct {
	Row     string `json:"row"`
	Load    string `json:"load"`
	Callers int    `json:"callers,omitempty"` // connections, or callers; 0 with an open loop
	Beside  bool   `json:"beside,omitempty"`

	row
}

func (j job) String() string {
	text := j.Row + ", " + j.Load
	if j.Callers > 0 {
		text += fmt.Sprintf(" %d", j.Callers)
	}
	if j.Beside {
		text += ", beside"
	}
	return text
}

// The numbers of connections and of callers.
const (
	few        = 30
	many       = 128
	manyNoHTTP = 256
)

// The sellers of the store without HTTP.
const (
	bareLoop = "bare loop"
	readLoop = "bare loop that reads"
	loopOf   = "loop of "   // and a strategy
	ordersOf = "orders of " // and how the steps of orders are written, each with a customer, a key and an event
)

// jobs returns what is measured in each round. Where one needs the result of another, the other comes first.
func jobs(s settings) []job {
	var list []job
	for _, beside := range []bool{false, true} {
		for _, r := range rows() {
			if beside && (s.beside == "" || !slices.Contains(s.besideRows, r.name)) ||
				!beside && !slices.Contains(s.rows, r.name) {
				continue
			}
			if r.name == noHTTP {
				list = append(list, job{readLoop, loop, few, false, r})
				for _, name := range []string{bareLoop, loopOf + "atomic", loopOf + "merged"} {
					for _, callers := range []int{few, manyNoHTTP} {
						list = append(list, job{name, loop, callers, false, r})
					}
				}
				for _, name := range []string{ordersOf + "atomic", ordersOf + "merged"} {
					list = append(list, job{name, loop, few, false, r})
				}
				continue
			}
			if r.name != proven && r.name != limited && r.name != traced { // sides more, for a ratio each
				list = append(list, job{r.name, sold, few, beside, r})
			}
			list = append(list, job{r.name, sold, many, beside, r})
			if r.refuses {
				list = append(list, job{r.name, refused, many, beside, r})
			}
		}
	}
	return append(list, dueJobs(list)...)
}

// dueJobs are those whose rate follows from what others did in the round.
func dueJobs(list []job) []job {
	if !slices.ContainsFunc(list, func(j job) bool { return j.Row == slow && j.Load == sold }) {
		return nil
	}
	var more []job
	for _, j := range list {
		if j.due && j.Load == sold && j.Callers == few {
			more = append(more, job{j.Row, due, 0, j.Beside, j.row})
		}
	}
	return more
}

// slow is the row that gives the open loop its rate: it must be one that all of them can follow.
const slow = "atomic/mysql"
