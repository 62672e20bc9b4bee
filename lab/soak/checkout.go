package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// shops is the number of instances of the order service. A retry goes to the other one.
const shops = 2

// openShop sets the stock of the order service.
func (r *run) openShop(ctx context.Context, feed checkout.Feed) error {
	clients := make([]*loadtest.Client, len(r.fleet.shops))
	for i, s := range r.fleet.shops {
		clients[i] = s.client
	}
	shopping, err := checkout.Open(ctx, clients, checkout.Plan{
		SKU: "soak-cart", SKUs: 12, Stock: 300, Concurrency: customers * len(clients), Seed: r.Seed,
		Duration: 24 * time.Hour, // the faults end it
		Timeout:  replyLimit, Patience: patience, SettleLimit: patience,
	}, feed)
	if err != nil {
		return fmt.Errorf("stock the order service: %w", err)
	}
	r.shopping = shopping
	return nil
}

// A Checkout is the verdict on the order service.
type Checkout struct {
	Verdict checkout.Verdict `json:"verdict"`
	Figures checkout.Figures `json:"figures"`
}

// judgeShop reads and judges the books of the order service.
func (r *run) judgeShop(ctx context.Context) error {
	result, err := r.shopping.Judge(ctx)
	r.report.Checkout = Checkout{result.Verdict, result.Figures}
	return err
}

// violations describes what is wrong and what is unknown.
func (c *Checkout) violations() (list []words.Text) {
	for _, check := range c.Verdict.Checks {
		for _, example := range check.Examples {
			list = append(list, say("violation.check", "check", check.Name, "why", example))
		}
		if more := check.Failed - len(check.Examples); more > 0 {
			list = append(list, say("violation.more", "check", check.Name, "n", more))
		}
	}
	if c.Verdict.Finding != loadtest.Holds && len(list) == 0 {
		list = append(list, say("violation.checkout", "why", c.Verdict.Sentence))
	}
	return list
}

// said returns the summary for a report.
func (c *Checkout) said() words.Text {
	f := &c.Figures
	var parts []string
	for _, o := range checkout.Outcomes() {
		parts = append(parts, fmt.Sprintf("%s %d", o, f.Outcomes[o]))
	}
	return say("report.checkout", "requests", f.Requests, "attempts", f.Attempts,
		"outcomes", strings.Join(parts, ", "), "cut", f.Cut, "replayed", f.Replayed, "orders", f.Orders, "late", f.Late,
		"movements", f.Movements, "events", f.Events, "again", f.Repeats, "back", duration(f.SweptMS.MaxMS),
		"finding", c.Verdict.Finding)
}
