package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// demoShops is how many instances of the order service the checkout has.
const demoShops = 2

// demoCheckout is how long customers come, after the faults have begun.
const demoCheckout = 8 * time.Second

// A mishap is a server that is killed in the middle of the checkout, and started again.
type mishap struct {
	server *server.Server
	at     time.Duration // after the start
}

// checkout is the last act: customers at two instances of the order service, one of which is killed, and the database
// is, too.
func (d *demo) checkout(ctx context.Context, servers *stack.Stack) error {
	database := servers.Server(string(server.MySQL))
	if database == nil {
		fmt.Fprintf(d.out, "\n%s\n", d.say("demo.no-checkout"))
		return nil
	}
	var env []string
	var feed checkout.Feed
	if redis := servers.Server(string(server.Redis)); redis != nil && servers.Missing()[string(server.Redis)] == "" {
		env = append(env, "ORDERS_OUTBOX_SINK=redis", "ORDERS_OUTBOX_REDIS=redis://"+redis.Addr)
		stream := checkout.NewStream(redis.Addr, "orders")
		defer stream.Close()
		feed = stream
	}
	shops, err := servers.Orders(ctx, demoShops, env...)
	if err != nil {
		return err
	}
	var clients []*loadtest.Client
	for _, shop := range shops {
		client, err := checkout.NewClient(shop.URL, stack.OrdersSecret, d.concurrency)
		if err != nil {
			return err
		}
		defer client.Close()
		clients = append(clients, client)
	}
	fmt.Fprintf(d.out, "\n%s\n\n", d.say("demo.checkout", "at_once", d.concurrency, "n", demoShops))
	shopping, err := checkout.Open(ctx, clients, checkout.Plan{
		Concurrency: d.concurrency, Duration: demoCheckout, Timeout: 8 * time.Second,
	}, feed)
	if err != nil {
		return err
	}
	mishaps := []mishap{{shops[0], 2 * time.Second}, {database, 4 * time.Second}}
	selling, stop := context.WithCancel(ctx)
	defer stop()
	var faults sync.WaitGroup
	var failed error
	faults.Go(func() { failed = d.mishaps(selling, mishaps) })
	shopping.Sell(selling)
	stop()
	faults.Wait()
	if err := errors.Join(failed, ctx.Err()); err != nil {
		return err
	}
	result, err := shopping.Judge(ctx)
	if err != nil {
		return err
	}
	d.books = result
	f := &result.Figures
	fmt.Fprintf(d.out, "  %s\n", d.say("demo.attempts", "requests", f.Requests, "attempts", f.Attempts, "cut", f.Cut,
		"unknown", f.Outcomes[checkout.Unknown]-f.Cut, "replayed", f.Replayed))
	all := checkout.Total(result.Books)
	fmt.Fprintf(d.out, "  %s\n", d.say("demo.law", "orders", f.Orders, "late", f.Late, "received", all.Received,
		"available", all.Available, "reserved", all.Reserved, "sold", all.Sold))
	fmt.Fprintf(d.out, "  %s\n", d.in(result.Verdict.Sentence))
	for _, c := range result.Verdict.Checks {
		for _, text := range c.Examples {
			fmt.Fprintf(d.out, "    - %s\n", d.in(text))
		}
	}
	return nil
}

// mishaps kills one server after the other, in the order of the list, and starts each again. A server that is down when
// ctx ends is started, too.
func (d *demo) mishaps(ctx context.Context, list []mishap) error {
	began := time.Now()
	for _, m := range list {
		if loadtest.Sleep(ctx, m.at-time.Since(began)) != nil {
			return nil // the demonstration was interrupted
		}
		at := time.Since(began)
		if err := m.server.Kill(); err != nil {
			return err
		}
		if err := m.server.Restart(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		fmt.Fprintf(d.out, "  %s\n", d.say("demo.killed", "at", fmt.Sprintf("%.1f s", at.Seconds()),
			"server", m.server.Name, "took", fmt.Sprintf("%.1f s", (time.Since(began)-at).Seconds())))
	}
	return nil
}
