package soak

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// shopsEach is the number of instances with profile orders for each store. A retry goes to the other one.
const shopsEach = 2

// shopStores returns the stores of the shops, in a fixed order.
func shopStores() []string { return []string{string(stack.MySQL), string(stack.Redis)} }

// shopEnv returns the environment variables of a shop, besides those of every instance. The relay is enabled in all
// shops, and runs in one at a time.
func shopEnv(store string) []string {
	lock := map[string]string{string(stack.MySQL): "mysql-table", string(stack.Redis): "redis-watchdog"}[store]
	return []string{
		"STOCK_PROFILE=orders", "STOCK_STORE=" + store, "STOCK_LAB=false", "STOCK_RELAY_ENABLED=true",
		"STOCK_RELAY_LOCK=" + lock,
	}
}

// A checkoutRun has the customers of the shops on one store.
type checkoutRun struct {
	store string
	*checkout.Shopping
	feed *checkout.Streams
}

// openCheckouts sets the stock of the shops of each store.
func (r *run) openCheckouts(ctx context.Context) error {
	for _, store := range shopStores() {
		shops := r.fleet.shops[store]
		if len(shops) == 0 {
			continue
		}
		clients := make([]*loadtest.Client, len(shops))
		for i, s := range shops {
			clients[i] = s.client
		}
		// The feed reads Redis directly, so that faults of the instances' links do not affect the evidence.
		feed := checkout.NewStreams(r.fleet.stack.Server(string(stack.Redis)).Addr)
		r.feeds = append(r.feeds, feed)
		shopping, err := checkout.Open(ctx, clients, checkout.Plan{
			SKU: "soak-cart-" + store, SKUs: 12, Stock: 300, Concurrency: customers * len(shops), Seed: r.Seed,
			Duration: 24 * time.Hour, // the faults end it
			Timeout:  replyLimit, Patience: patience, SettleLimit: patience,
		}, feed)
		if err != nil {
			return fmt.Errorf("stock the shops on %s: %w", store, err)
		}
		r.checkouts = append(r.checkouts, &checkoutRun{store, shopping, feed})
	}
	return nil
}

// checkoutAll starts the customers of all shops, which buy until ctx ends.
func (r *run) checkoutAll(ctx context.Context, owned *sync.WaitGroup) {
	for _, c := range r.checkouts {
		owned.Go(func() { c.Sell(ctx) })
	}
}

// A Checkout is the verdict on the shops of one store.
type Checkout struct {
	Store   string           `json:"store"`
	Verdict checkout.Verdict `json:"verdict"`
	Figures checkout.Figures `json:"figures"`
}

// judgeCheckouts reads and judges the books of all shops.
func (r *run) judgeCheckouts(ctx context.Context) error {
	var failed []error
	for _, c := range r.checkouts {
		result, err := c.Judge(ctx)
		failed = append(failed, err)
		r.report.Checkouts = append(r.report.Checkouts, Checkout{c.store, result.Verdict, result.Figures})
	}
	return errors.Join(failed...)
}

// violations describes what is wrong and what is unknown.
func (c *Checkout) violations() (list []words.Text) {
	for _, check := range c.Verdict.Checks {
		for _, example := range check.Examples {
			list = append(list, say("violation.check", "store", c.Store, "check", check.Name, "why", example))
		}
		if more := check.Failed - len(check.Examples); more > 0 {
			list = append(list, say("violation.more", "store", c.Store, "check", check.Name, "n", more))
		}
	}
	if c.Verdict.Finding != loadtest.Holds && len(list) == 0 {
		list = append(list, say("violation.checkout", "store", c.Store, "why", c.Verdict.Sentence))
	}
	return list
}

// said returns the summary of the shops for a report.
func (c *Checkout) said() words.Text {
	f := &c.Figures
	var parts []string
	for _, o := range checkout.Outcomes() {
		parts = append(parts, fmt.Sprintf("%s %d", o, f.Outcomes[o]))
	}
	return say("report.checkout", "store", c.Store, "requests", f.Requests, "attempts", f.Attempts,
		"outcomes", strings.Join(parts, ", "), "cut", f.Cut, "replayed", f.Replayed, "orders", f.Orders, "late", f.Late,
		"movements", f.Movements, "events", f.Events, "again", f.Repeats, "back", duration(f.SweptMS.MaxMS),
		"finding", c.Verdict.Finding)
}
