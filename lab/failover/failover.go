// Package failover sells from an installation in which every server can fail over, and makes the servers fail one
// after the other: a Galera cluster of three nodes behind HAProxy, a Redis master with two replicas and three
// Sentinels, three ZooKeepers, two instances of the demonstration and two of the order service, each pair behind nginx.
// It measures for how long nothing is sold, and judges whether a sale was lost or made twice.
//
// Package soak searches for unknown failures with random faults of single servers; here the faults are known, and what
// is measured is the way back.
package failover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// Options say what to do.
type Options struct {
	Short bool // the kills and the restart of the instances only

	Binary string // the stock program; empty: this executable
	Parent string // parent of the temporary folder; empty: os.TempDir()

	Server func(server.Event)                   // called when a server starts or stops; may be nil
	Say    func(at time.Duration, _ words.Text) // called for every event; may be nil
}

// Rate is the number of requests for each strategy in a second. Sales are so frequent that the time between two is
// small beside a fail-over, and the load is so small that a laptop can carry it.
const Rate = 20

// customers is the number of customers of the shop at once.
const customers = 4

// patience is how long the sales, and the servers, may take to recover after a fault.
const patience = 2 * time.Minute

// calm is the time without faults before each fault.
const calm = 3 * time.Second

// Run does everything, and returns what it found. An error, such as a server.MissingError or a server that
// does not start, means that there is no verdict. When ctx ends, there is none, either. A lost sale is not an error:
// see Report.Violations.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	site, err := openSite(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	r := &run{Options: o, site: site, began: time.Now(), report: &Report{Version: Version, Rate: Rate, Short: o.Short}}
	r.report.StartedAt = r.began.UTC()
	if err := r.site.ready(ctx); err != nil {
		return nil, err
	}
	if r.probe, err = openProbe(ctx, site.redis); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.probe.close()) }()
	r.shopping, err = checkout.Open(ctx, []*loadtest.Client{site.shop}, checkout.Plan{
		SKU: "failover", SKUs: 12, Stock: 100_000, PerCustomer: -1, Concurrency: customers, Lost: -1,
		Duration: 24 * time.Hour, // the end of the faults ends it
		Timeout:  10 * time.Second, Patience: patience, SettleLimit: patience,
	}, nil)
	if err != nil {
		return nil, err
	}

	load, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var sellers sync.WaitGroup
	for _, l := range lanes() {
		l.target = &target{Client: site.demo}
		r.lanes = append(r.lanes, l)
		sellers.Go(func() { l.sell(load) })
	}
	sellers.Go(func() { r.shopping.Sell(load) })
	sellers.Go(func() { r.probe.write(load) })
	err = r.faults(ctx)
	stop()
	sellers.Wait()
	if err != nil {
		return nil, err
	}
	r.say(say("progress.judging"))
	return r.report, r.judge(context.WithoutCancel(ctx))
}

// A run is one run.
type run struct {
	Options
	site     *site
	began    time.Time
	lanes    []*lane
	shopping *checkout.Shopping
	probe    *probe
	report   *Report
}

func (r *run) say(text words.Text) {
	if r.Say != nil {
		r.Say(time.Since(r.began), text)
	}
}

// faults makes the servers fail one after the other. After each fault it waits until everything sells, mends what is
// broken, and waits again.
func (r *run) faults(ctx context.Context) error {
	for _, f := range r.site.faults(r.Short) {
		if err := r.sells(ctx, time.Now(), calm); err != nil {
			return err
		}
		began := time.Now()
		r.say(f.said())
		heal, err := f.begin(ctx)
		if err == nil {
			err = r.sells(ctx, time.Now(), 0)
		}
		if heal != nil {
			// What is broken is fixed even if nothing is sold, because that may be the way back.
			err = errors.Join(err, heal(ctx), r.sells(ctx, time.Now(), 0))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.said().EN, err)
		}
		r.report.Faults = append(r.report.Faults, Fault{
			Name: f.name, Server: f.server, Text: f.said(), began: began, ended: time.Now(),
		})
		r.say(say("progress.sells", "time", seconds(ms(time.Since(began)))))
	}
	return r.sells(ctx, time.Now(), calm)
}

// sells waits until every lane and the shop have sold something that was asked for after since, and then until least
// has passed.
func (r *run) sells(ctx context.Context, since time.Time, least time.Duration) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		silent := ""
		for _, l := range r.lanes {
			if err := l.ended(); err != nil {
				return err
			}
			if !l.target.soldSince(since) {
				silent = l.name()
			}
		}
		if !r.shopping.DoneSince(since) {
			silent = checkoutLane
		}
		if silent == "" {
			return loadtest.Sleep(ctx, least-time.Since(since))
		}
		if err := loadtest.Sleep(within, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s sells nothing: %w", silent, err)
		}
	}
}
