package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// token lets the soak set stock and hold locks for longer. The instances listen on this computer only.
const token = "soak"

// serverNames returns the servers that get faults, in a fixed order.
func serverNames() []string {
	return []string{string(server.Redis), string(server.ZooKeeper), string(server.MySQL)}
}

// instanceNames returns the names that package stack gives to n instances of the demonstration, and to the shops.
func instanceNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app-%d", i+1))
	}
	for i := range shops {
		names = append(names, fmt.Sprintf("orders-%d", i+1))
	}
	return names
}

// env returns the environment variables of the instances. Leases are short, so that faults outlast them. The limit on
// work exceeds a lease, so that a holder that was paused past its lease still writes, and the fence must refuse it.
func env() []string {
	return []string{
		"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=3s",
		"STOCK_WAIT=3s", "STOCK_WORK=6s", "STOCK_REDIS_TIMEOUT=" + redisTimeout.String(),
		"STOCK_LOCK_SETNX_LEASE=" + lease.String(), "STOCK_LOCK_WATCHDOG_LEASE=" + lease.String(),
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=" + (lease + time.Second).String(),
	}
}

// A fleet has the servers, the instances, and a link from each instance to each server.
type fleet struct {
	stack     *stack.Stack
	instances []*instance
	shops     []*instance // instances of the order service
	links     map[string]*wire.Proxy
}

// An instance is a process that sells.
type instance struct {
	*server.Server
	client *loadtest.Client
	ready  func(context.Context) error
}

// openFleet starts the servers and the instances. A server that is not installed is an error, because a soak without it
// would test less than its report suggests.
func openFleet(ctx context.Context, o Options) (f *fleet, err error) {
	f = &fleet{links: make(map[string]*wire.Proxy)}
	f.stack, err = stack.Start(ctx, stack.Options{
		Options: server.Options{
			Want: []server.Kind{server.Redis, server.ZooKeeper, server.MySQL}, AOF: true, Parent: o.Parent,
			Progress: o.Server,
		},
		AnyPort: true, Binary: o.Binary, Env: env(),
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	for name, reason := range f.stack.Missing() {
		return nil, &MissingError{name, reason}
	}
	for i, name := range instanceNames(o.Instances) {
		serve, list := f.serve, &f.instances
		if i >= o.Instances {
			serve, list = f.serveOrders, &f.shops
		}
		started, err := serve(ctx, name)
		if err != nil {
			return nil, err
		}
		*list = append(*list, started)
	}
	return f, nil
}

// A MissingError names a server that is not installed.
type MissingError struct{ Server, Reason string }

func (e *MissingError) Error() string { return e.Server + ": " + e.Reason }

// open opens the links of an instance to the servers, and returns their addresses by server.
func (f *fleet) open(name string) (via map[server.Kind]string, err error) {
	protocols := map[string]wire.Protocol{
		string(server.Redis):     wire.Redis(),
		string(server.ZooKeeper): wire.ZooKeeper(),
		string(server.MySQL):     wire.MySQL(),
	}
	via = make(map[server.Kind]string)
	for _, backend := range serverNames() {
		p, err := wire.Listen(f.stack.Server(backend).Addr, protocols[backend])
		if err != nil {
			return nil, err
		}
		f.links[link(name, backend)], via[server.Kind(backend)] = p, p.Addr()
	}
	return via, nil
}

// serve starts an instance of the demonstration.
func (f *fleet) serve(ctx context.Context, name string) (*instance, error) {
	via, err := f.open(name)
	if err != nil {
		return nil, err
	}
	started, err := f.stack.Serve(ctx, 1, "STOCK_REDIS_URL=redis://"+via[server.Redis],
		"STOCK_ZOOKEEPER_HOSTS="+via[server.ZooKeeper], "STOCK_MYSQL_DSN=root@tcp("+via[server.MySQL]+")/stock")
	if err != nil {
		return nil, err
	}
	if started[0].Name != name {
		return nil, fmt.Errorf("an instance is called %s, expected %s", started[0].Name, name)
	}
	client, err := loadtest.NewClient(started[0].URL, token, 64)
	if err != nil {
		return nil, err
	}
	return &instance{started[0], client, func(ctx context.Context) error { return allUp(ctx, client) }}, nil
}

// serveOrders starts an instance of the order service.
func (f *fleet) serveOrders(ctx context.Context, name string) (*instance, error) {
	via, err := f.open(name)
	if err != nil {
		return nil, err
	}
	started, err := f.stack.Orders(ctx, 1,
		"ORDERS_MYSQL_DSN="+stack.OrdersDSN("root@tcp("+via[server.MySQL]+")/"),
		"ORDERS_OUTBOX_SINK=redis", "ORDERS_OUTBOX_REDIS=redis://"+via[server.Redis])
	if err != nil {
		return nil, err
	}
	if started[0].Name != name {
		return nil, fmt.Errorf("an instance is called %s, expected %s", started[0].Name, name)
	}
	client, err := checkout.NewClient(started[0].URL, stack.OrdersSecret, 64)
	if err != nil {
		return nil, err
	}
	return &instance{started[0], client, stack.OrdersReady(started[0])}, nil
}

// close stops the instances, the links and the servers.
func (f *fleet) close() error {
	for _, i := range slices.Concat(f.instances, f.shops) {
		i.client.Close()
	}
	failed := []error{f.stack.Stop()}
	for _, p := range f.links {
		failed = append(failed, p.Close())
	}
	return errors.Join(failed...)
}

// ready waits until every instance reports every server up, for which package stack does not wait.
func (f *fleet) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, i := range slices.Concat(f.instances, f.shops) {
		for err := i.ready(ctx); err != nil; err = i.ready(ctx) {
			if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("%s is not ready: %w", i.Name, err)
			}
		}
	}
	return nil
}

// allUp returns an error unless an instance of the demonstration reports that all servers are up.
func allUp(ctx context.Context, client *loadtest.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := client.Backends(ctx)
	if err != nil {
		return err
	}
	for _, server := range serverNames() {
		if b := all[server]; !b.Up {
			return fmt.Errorf("%s is down: %s", server, b.Reason)
		}
	}
	return nil
}

// begin starts fault x, and returns the function that ends it.
func (f *fleet) begin(x Fault) (heal func(context.Context) error, err error) {
	if p := f.links[x.Target]; p != nil {
		return disturb(p, x)
	}
	server := f.stack.Server(x.Target)
	if server == nil {
		return nil, fmt.Errorf("%s: there is no such target", x)
	}
	switch x.Kind {
	case Kill:
		return server.Restart, server.Kill()
	case Restart:
		return server.Restart, server.Stop()
	case Pause:
		return func(context.Context) error { return server.Resume() }, server.Pause()
	}
	return nil, fmt.Errorf("%s: this cannot be done to a process", x)
}

func disturb(p *wire.Proxy, f Fault) (heal func(context.Context) error, err error) {
	switch f.Kind {
	case Cut:
		p.Refuse(true)
		p.Cut()
		return func(context.Context) error { p.Refuse(false); return nil }, nil
	case Silence:
		p.Silence(map[string][]wire.Direction{
			bothWays: {wire.ToServer, wire.ToClient}, toServer: {wire.ToServer}, fromServer: {wire.ToClient},
		}[f.Way]...)
		return func(context.Context) error { p.Silence(); return nil }, nil
	case Slow:
		delay(p, f.By)
		return func(context.Context) error { delay(p, 0); return nil }, nil
	}
	return nil, fmt.Errorf("%s: this cannot be done to a link", f)
}

func delay(p *wire.Proxy, by time.Duration) {
	p.Delay(wire.ToServer, by)
	p.Delay(wire.ToClient, by)
}
