package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/loadtest"
)

// token lets the soak set stock and hold locks for longer. The instances listen on this computer only.
const token = "soak"

// serverNames returns the servers that get faults, in a fixed order.
func serverNames() []string {
	return []string{string(stack.Redis), string(stack.ZooKeeper), string(stack.MySQL)}
}

// instanceNames returns the names that package stack gives to n instances.
func instanceNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app-%d", i+1))
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
	shops     map[string][]*instance // instances with profile orders, by store
	links     map[string]*wire.Proxy
}

// An instance is a process that sells.
type instance struct {
	*stack.Server
	client *loadtest.Client
}

// openFleet starts the servers and the instances. A server that is not installed is an error, because a soak without it
// would test less than its report suggests.
func openFleet(ctx context.Context, o Options) (f *fleet, err error) {
	f = &fleet{links: make(map[string]*wire.Proxy), shops: make(map[string][]*instance)}
	f.stack, err = stack.Start(ctx, stack.Options{
		Want: []stack.Kind{stack.Redis, stack.ZooKeeper, stack.MySQL}, AOF: true, AnyPort: true,
		Binary: o.Binary, Parent: o.Parent, Env: env(), Progress: o.Server,
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
	names := instanceNames(o.Instances + shopsEach*len(shopStores()))
	for _, name := range names[:o.Instances] {
		started, err := f.serve(ctx, name)
		if err != nil {
			return nil, err
		}
		f.instances = append(f.instances, started)
	}
	for i, name := range names[o.Instances:] {
		store := shopStores()[i%len(shopStores())]
		started, err := f.serve(ctx, name, shopEnv(store)...)
		if err != nil {
			return nil, err
		}
		f.shops[store] = append(f.shops[store], started)
	}
	return f, nil
}

// A MissingError names a server that is not installed.
type MissingError struct{ Server, Reason string }

func (e *MissingError) Error() string { return e.Server + ": " + e.Reason }

// serve opens the links of an instance, and starts the instance.
func (f *fleet) serve(ctx context.Context, name string, env ...string) (*instance, error) {
	protocols := map[string]wire.Protocol{
		string(stack.Redis):     wire.Redis(),
		string(stack.ZooKeeper): wire.ZooKeeper(),
		string(stack.MySQL):     wire.MySQL(),
	}
	via := make(map[string]string)
	for _, server := range serverNames() {
		p, err := wire.Listen(f.stack.Server(server).Addr, protocols[server])
		if err != nil {
			return nil, err
		}
		f.links[link(name, server)], via[server] = p, p.Addr()
	}
	started, err := f.stack.Serve(ctx, 1, append(env,
		"STOCK_REDIS_ADDRS="+via[string(stack.Redis)], "STOCK_ZOOKEEPER_HOSTS="+via[string(stack.ZooKeeper)],
		"STOCK_MYSQL_DSN=root@tcp("+via[string(stack.MySQL)]+")/stock")...)
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
	return &instance{started[0], client}, nil
}

// close stops the instances, the links and the servers.
func (f *fleet) close() error {
	for _, i := range f.instances {
		i.client.Close()
	}
	for _, shops := range f.shops {
		for _, i := range shops {
			i.client.Close()
		}
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
	for _, i := range f.instances {
		for err := i.ready(ctx, false); err != nil; err = i.ready(ctx, false) {
			if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("%s is not ready: %w", i.Name, err)
			}
		}
	}
	for _, shops := range f.shops {
		for _, i := range shops {
			for err := i.ready(ctx, true); err != nil; err = i.ready(ctx, true) {
				if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
					return fmt.Errorf("%s is not ready: %w", i.Name, err)
				}
			}
		}
	}
	return nil
}

// ready returns an error unless the instance reports that all its servers are up. A shop uses only some of the soak's
// servers.
func (i *instance) ready(ctx context.Context, shop bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := i.client.Backends(ctx)
	if err != nil {
		return err
	}
	for _, server := range serverNames() {
		if b, uses := all[server]; !b.Up && (uses || !shop) {
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
