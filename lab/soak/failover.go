package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// FailOver makes the servers of an installation fail one after the other, to measure the way back: a Galera cluster of
// three nodes behind HAProxy, a Redis master with two replicas and three Sentinels, three ZooKeepers, two instances of
// the demonstration and two of the order service, each pair behind nginx.
type FailOver struct {
	Options
	Short bool // the kills and the restart of the instances only
}

// Rate is the number of requests of FailOver for each strategy in a second. Sales are so frequent that the time between
// two is small beside a fail-over, and the load is so small that a laptop can carry it.
const Rate = 20

// customers is the number of customers of the shop at once.
const customers = 4

// calm is the time without faults before each fault.
const calm = 3 * time.Second

// Run does everything, and returns what it found. An error, such as a server.MissingError or a server that
// does not start, means that there is no verdict. When ctx ends, there is none, either. A lost sale is not an error:
// see FailOverReport.Violations.
func (o FailOver) Run(ctx context.Context) (report *FailOverReport, err error) {
	cluster, err := openCluster(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cluster.close()) }()
	r := &failOver{sale: newSale(ctx, o.Options, cluster.site), plan: o, cluster: cluster}
	defer r.end()
	r.report = &FailOverReport{Version: Version, Rate: Rate, Short: o.Short, StartedAt: r.began.UTC()}
	plan := checkout.Plan{SKU: "failover", Stock: 100_000, PerCustomer: -1, Concurrency: customers, Lost: -1}
	if err := r.openShop(ctx, plan, nil); err != nil {
		return nil, err
	}
	for _, of := range [][2]string{
		{"atomic", mysql}, {"zk-sequential", mysql}, {"atomic", redis}, {"redis-watchdog", redis},
	} {
		r.lanes = append(r.lanes, newLane(of[0], of[1], cluster.demo))
	}
	r.results, r.failed = make([]*loadtest.Result, len(r.lanes)), make(chan error, len(r.lanes))
	r.start(r.sell)
	err = r.faults(ctx)
	r.say(say("progress.judging"))
	r.end()
	if err != nil {
		return nil, err
	}
	return r.report, r.judge(context.WithoutCancel(ctx))
}

// A failOver is one run of FailOver.
type failOver struct {
	*sale
	plan    FailOver
	cluster *cluster
	results []*loadtest.Result // of the lanes
	failed  chan error         // of a lane that has ended early
	report  *FailOverReport
}

// sell sends requests at a fixed rate until ctx ends, and judges them.
func (r *failOver) sell(ctx context.Context, l *lane) {
	result, err := loadtest.Run(ctx, l, loadtest.Plan{
		Strategy: l.strategy, Store: l.store, SKU: "failover-" + l.strategy, Stock: 1_000_000,
		Duration: endless, Rate: loadtest.Rate{From: Rate, To: Rate}, Timeout: 10 * time.Second,
	}, nil)
	if err != nil {
		r.failed <- fmt.Errorf("%s: %w", l.name(), err)
	}
	r.results[slices.Index(r.lanes, l)] = result
}

// faults makes the servers fail one after the other. After each fault it waits until everything sells, mends what is
// broken, and waits again.
func (r *failOver) faults(ctx context.Context) error {
	for _, f := range r.cluster.faults(r.plan.Short) {
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
		r.report.Faults = append(r.report.Faults, Outage{
			Name: f.name, Server: f.server, Text: f.said(), began: began, ended: time.Now(),
		})
		r.say(say("progress.sells", "time", seconds(ms(time.Since(began)))))
	}
	return r.sells(ctx, time.Now(), calm)
}

// sells waits until every lane and the shop have sold something that was asked for after since, and then until least
// has passed.
func (r *failOver) sells(ctx context.Context, since time.Time, least time.Duration) error {
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		silent := r.silent(since)
		if len(silent) == 0 {
			return loadtest.Sleep(ctx, least-time.Since(since))
		}
		select {
		case err := <-r.failed:
			return err
		default:
		}
		if err := loadtest.Sleep(within, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%s: %w", silent[0].EN, err)
		}
	}
}
