// Package soak sells while servers fail, and judges whether a single unit of stock was sold wrongly. It has two plans.
//
// [Random] searches for unknown failures: it loads every strategy that promises safety, and the order service, while it
// kills and freezes processes and breaks links, at random from a seed. It does not promise to find every error, or to
// find the same error twice with the same seed: a seed fixes the faults, not the interleaving.
//
// [FailOver] makes the servers of an installation in which each can fail over fail one after the other, and measures
// for how long nothing is sold.
//
// Scenarios of package lab force known failures.
package soak

import (
	"context"
	"embed"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

func say(key string, pairs ...any) words.Text { return phrases.Say(key, pairs...) }

// Options are those of both plans.
type Options struct {
	Binary string // the stock program; empty: this executable
	Parent string // parent of the temporary folder; empty: os.TempDir()

	Server func(server.Event)                   // called when a server starts or stops; may be nil
	Say    func(at time.Duration, _ words.Text) // called for every event, one at a time; may be nil
}

// A sale is the load on a site: lanes, and customers of the order service.
type sale struct {
	Options
	site     *site
	lanes    []*lane
	shopping *checkout.Shopping
	began    time.Time

	telling sync.Mutex // held while Options.Say runs
	sellers sync.WaitGroup
	stop    context.CancelFunc // of load
	load    context.Context    // ends when no more is to be bought
}

func newSale(ctx context.Context, o Options, s *site) *sale {
	sale := &sale{Options: o, site: s, began: time.Now()}
	sale.load, sale.stop = context.WithCancel(context.WithoutCancel(ctx))
	return sale
}

func (s *sale) say(text words.Text) {
	if s.Say == nil {
		return
	}
	s.telling.Lock()
	defer s.telling.Unlock()
	s.Say(time.Since(s.began), text)
}

// endless is the duration of runs that the end of the faults ends.
const endless = 48 * time.Hour

// openShop puts stock into the order service. plan lacks what both plans have in common.
func (s *sale) openShop(ctx context.Context, plan checkout.Plan, feed checkout.Feed) (err error) {
	plan.SKUs, plan.Duration, plan.Timeout = 12, endless, replyLimit
	plan.Patience, plan.SettleLimit = patience, patience
	s.shopping, err = checkout.Open(ctx, s.site.shop, plan, feed)
	return err
}

// start begins the load: each lane sells by sell, and more runs beside them, until end.
func (s *sale) start(sell func(context.Context, *lane), more ...func(context.Context)) {
	for _, l := range s.lanes {
		s.sellers.Go(func() { sell(s.load, l) })
	}
	for _, run := range append(more, s.shopping.Sell) {
		s.sellers.Go(func() { run(s.load) })
	}
}

// end ends the load, and returns when the lanes are judged.
func (s *sale) end() {
	s.stop()
	s.sellers.Wait()
}

// silent returns what has not sold anything that was asked for after since.
func (s *sale) silent(since time.Time) (missing []words.Text) {
	for _, l := range s.lanes {
		if !l.soldSince(since) {
			missing = append(missing, say("missing.strategy", "strategy", l.strategy, "store", l.store))
		}
	}
	if !s.shopping.DoneSince(since) {
		missing = append(missing, say("missing.shops"))
	}
	return missing
}

// patience is how long servers, sales and the reading of what was sold may take to recover after a fault.
const patience = 2 * time.Minute

// replyLimit is how long a customer waits for a reply. It exceeds the wait and work limits of the instances and most
// freezes.
const replyLimit = 12 * time.Second

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func duration(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond)).Round(time.Millisecond)
}

// sleep waits for d, and reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool { return loadtest.Sleep(ctx, d) == nil }
