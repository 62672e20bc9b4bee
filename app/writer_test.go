package app

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// On a Galera cluster one node sells, whichever instance a request goes to, also after that node was killed and has
// come back: no more is sold than there is, and every sale that a client was told of is in the books.
func TestOneWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	g := stacktest.Galera(t, 3)
	at := func(node *stack.Server, more ...string) *instance {
		return begin(t, backends(append(more, "--store=mysql", "--mysql-dsn="+node.URL, "--log-level=warn")...)...)
	}
	first := at(g.Nodes[0])
	first.ready(t, "mysql")
	for _, path := range []string{"/readyz", "/v1/strategies"} {
		if r := first.ask(http.MethodGet, path); !strings.Contains(r.body, "of a Galera cluster of 3") {
			t.Errorf("%s does not name the cluster: %s", path, r.body)
		}
	}
	second := at(g.Nodes[1])
	second.becomes(t, 503, "takes the sales")

	const units = 300
	first.must(t, http.MethodPut, "/v1/stock/widget?quantity=300", 200)
	b := &register{sold: make(map[string]int), problems: make(map[string]int)}
	for _, strategy := range []string{"atomic", "merged", "optimistic"} {
		sku := "widget-" + strategy
		first.must(t, http.MethodPut, fmt.Sprintf("/v1/stock/%s?quantity=%d", sku, units), 200)
		b.rush(t, 12, 40, "/deduct_stock_"+strategy+"?sku="+sku, first, second)
		b.balanced(t, first, sku, units)
	}
	if b.problems["second_writer"] == 0 {
		t.Errorf("no sale was refused as that of a second writer: %v", b.problems)
	}
	for _, strategy := range []string{"mysql_get_lock", "mysql_for_update"} {
		r := first.must(t, http.MethodPost, "/deduct_stock_"+strategy+"?sku=widget", 503)
		if !strings.Contains(r.body, "known to one node only") {
			t.Errorf("%s: %s", strategy, r.body)
		}
	}

	// The writer is killed while customers buy. The second node takes over.
	const sku = "widget-atomic"
	first.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=100000", 200)
	delete(b.sold, sku)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, i := range []*instance{first, second} {
		for range 4 {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						b.buy(i, "/deduct_stock_atomic?sku="+sku)
					}
				}
			})
		}
	}
	if err := g.Nodes[0].Kill(); err != nil {
		t.Fatal(err)
	}
	second.becomes(t, 200)
	if err := g.Nodes[0].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.becomes(t, 503, "takes the sales")
	before := b.of(sku)
	stacktest.Eventually(t, time.Minute, "the second node sells with the first one back", func() (bool, string) {
		return b.of(sku) >= before+100, fmt.Sprint(b.of(sku) - before)
	})
	close(stop)
	clients.Wait()
	b.balanced(t, second, sku, 100000)
	// A program that knows nothing of the writer is refused, too.
	db, err := sql.Open("mysql", g.Nodes[0].URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), "UPDATE stock SET quantity = quantity - 1"); err == nil ||
		!strings.Contains(err.Error(), "second_writer") {
		t.Errorf("a change at the first node: %v, want second_writer", err)
	}
	// If several writers are allowed, the triggers are removed, and every node sells.
	third := at(g.Nodes[2], "--mysql-several-writers")
	third.becomes(t, 200)
	third.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+sku, 200)
}

// A register counts what clients were told.
type register struct {
	mu       sync.Mutex
	sold     map[string]int // by SKU
	unknown  int
	problems map[string]int
}

// of returns how many sales of a SKU clients were told of.
func (b *register) of(sku string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sold[sku]
}

// rush sends n requests of each of c clients to each instance, all at once.
func (b *register) rush(t *testing.T, c, n int, path string, instances ...*instance) {
	t.Helper()
	var all sync.WaitGroup
	for _, i := range instances {
		for range c {
			all.Go(func() {
				for range n {
					b.buy(i, path)
				}
			})
		}
	}
	all.Wait()
}

func (b *register) buy(i *instance, path string) {
	r := i.ask(http.MethodPost, path)
	_, sku, _ := strings.Cut(path, "sku=")
	b.mu.Lock()
	defer b.mu.Unlock()
	switch problem := name(r); {
	case r.status == http.StatusOK:
		b.sold[sku]++
	case r.err != nil, problem == "outcome_unknown":
		b.unknown++
	default:
		b.problems[problem]++
	}
}

// balanced checks that exactly what clients were told was sold, what is unknown aside, and that the stock has the rest.
func (b *register) balanced(t *testing.T, i *instance, sku string, units int) {
	t.Helper()
	var told struct{ Quantity, Sold int }
	r := i.must(t, http.MethodGet, "/v1/stock/"+sku, 200)
	if err := json.Unmarshal([]byte(r.body), &told); err != nil {
		t.Fatal(err)
	}
	if told.Sold < b.sold[sku] || told.Sold > b.sold[sku]+b.unknown || told.Quantity != units-told.Sold ||
		b.sold[sku] == 0 {
		t.Errorf("%s: clients were told of %d sales, %d are unknown; the store has %s",
			sku, b.sold[sku], b.unknown, r.body)
	}
	t.Logf("%s: %d sold, %d unknown, refused %v", sku, b.sold[sku], b.unknown, b.problems)
}
