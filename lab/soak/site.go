package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// token lets the load generator set stock and hold locks for longer. The instances listen on this computer only.
const token = "soak"

// connections is how many idle connections a client keeps to an instance.
const connections = 64

// A site has the servers, the instances of the demonstration and of the order service, and the clients of both.
type site struct {
	stack      *stack.Stack
	demo, shop []*loadtest.Client
	links      map[string]stack.Link // by instance; those of FailOver have none
}

func newSite(ctx context.Context, o Options, with stack.Options) (s *site, err error) {
	with.AOF, with.Parent, with.Progress = true, o.Parent, o.Server
	with.AnyPort, with.Binary = true, o.Binary
	with.Env = append(with.Env, "STOCK_ADMIN_TOKEN="+token, "STOCK_LOG_LEVEL=warn", "STOCK_WAIT=3s")
	s = &site{links: make(map[string]stack.Link)}
	s.stack, err = stack.Start(ctx, with)
	return s, err
}

// instances returns those of both.
func (s *site) instances() []*server.Server { return s.stack.Tier(server.Instance) }

// sellAt makes customers of the demonstration buy at a server, and orderAt those of the order service.
func (s *site) sellAt(at *server.Server) error {
	client, err := loadtest.NewClient(at.URL, token, connections)
	if err == nil {
		s.demo = append(s.demo, client)
	}
	return err
}

func (s *site) orderAt(at *server.Server) error {
	client, err := checkout.NewClient(at.URL, stack.OrdersSecret, connections)
	if err == nil {
		s.shop = append(s.shop, client)
	}
	return err
}

// ready waits until every instance reports every server up.
func (s *site) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.stack.AwaitReady(ctx, s.instances()...)
}

// close stops everything.
func (s *site) close() error {
	for _, c := range slices.Concat(s.demo, s.shop) {
		c.Close()
	}
	failed := []error{s.stack.Stop()}
	for _, l := range s.links {
		failed = append(failed, l.Close())
	}
	return errors.Join(failed...)
}

// env returns the environment variables of the instances of Random. Leases are short, so that faults outlast them. The
// limit on work exceeds a lease, so that a holder that was frozen past its lease still writes, and the fence must
// refuse it.
func env() []string {
	return []string{
		"STOCK_LAB=true", "STOCK_DRAIN=0s", "STOCK_STOP=3s", "STOCK_WORK=6s",
		"STOCK_REDIS_TIMEOUT=" + redisTimeout.String(),
		"STOCK_LOCK_SETNX_LEASE=" + lease.String(), "STOCK_LOCK_WATCHDOG_LEASE=" + lease.String(),
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=" + (lease + sessionMore).String(),
	}
}

// openSite starts the servers and the instances of Random, each with a link of its own to the servers. A server that
// is not installed is a server.MissingError, because a soak without it would test less than its report suggests.
func openSite(ctx context.Context, o Random) (s *site, err error) {
	s, err = newSite(ctx, o.Options, stack.Options{Env: env()})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for _, kind := range stack.Kinds() {
		if _, err := s.stack.Add(ctx, kind); err != nil {
			return nil, err
		}
	}
	for range demos {
		serve := func(l stack.Link) ([]*server.Server, error) { return s.stack.Serve(ctx, 1, s.stack.EnvVia(l)...) }
		if err := s.open(serve, s.sellAt); err != nil {
			return nil, err
		}
	}
	mysql := s.stack.Server(string(server.MySQL))
	for range shops {
		serve := func(l stack.Link) ([]*server.Server, error) {
			return s.stack.Orders(ctx, 1,
				"ORDERS_MYSQL_DSN="+stack.OrdersDSN(stack.Through(l[server.MySQL], mysql)),
				"ORDERS_OUTBOX_SINK=redis", "ORDERS_OUTBOX_REDIS=redis://"+l[server.Redis].Addr())
		}
		if err := s.open(serve, s.orderAt); err != nil {
			return nil, err
		}
	}
	return s, s.ready(ctx)
}

// open opens a link, and starts an instance on it, for the customers of buyAt.
func (s *site) open(serve func(stack.Link) ([]*server.Server, error), buyAt func(*server.Server) error) error {
	link, err := stack.OpenLink(s.stack.Stack)
	if err != nil {
		return err
	}
	started, err := serve(link)
	if err != nil {
		return errors.Join(err, link.Close())
	}
	s.links[started[0].Name] = link
	return buyAt(started[0])
}

// begin starts fault x, and returns the function that ends it.
func (s *site) begin(x Fault) (heal func(context.Context) error, err error) {
	if instance, backend, is := strings.Cut(x.Target, between); is {
		if link := s.links[instance]; link != nil {
			return disturb(link[server.Kind(backend)], x)
		}
	}
	server := s.stack.Server(x.Target)
	if server == nil {
		return nil, fmt.Errorf("%s: there is no such target", x)
	}
	switch x.Kind {
	case Kill:
		return server.Restart, server.Kill()
	case Restart:
		return server.Restart, server.Stop()
	case Freeze:
		return func(context.Context) error { return server.Resume() }, server.Pause()
	}
	return nil, fmt.Errorf("%s: this cannot be done to a process", x)
}

func disturb(p *wire.Proxy, f Fault) (heal func(context.Context) error, err error) {
	switch f.Kind {
	case Cut:
		p.Sever()
	case Silence:
		p.Silence(map[string][]wire.Direction{
			bothWays: {wire.ToServer, wire.ToClient}, toServer: {wire.ToServer}, fromServer: {wire.ToClient},
		}[f.Way]...)
	case Slow:
		p.Slow(f.By)
	default:
		return nil, fmt.Errorf("%s: this cannot be done to a link", f)
	}
	return func(context.Context) error { p.Mend(); return nil }, nil
}
