package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/server"
)

// token lets the load generator set stock on the instances, which listen on this computer only.
const token = "failover"

// How long a Redis master and a ZooKeeper leader may be silent before the others replace them.
const (
	downAfter = 2 * time.Second
	silence   = 3 * time.Second
)

// A site has all servers.
type site struct {
	stack     *stack.Stack
	galera    *server.Galera
	haproxy   *server.Server
	redis     *server.Sentinels
	zookeeper *server.ZooKeeperEnsemble
	instances []instance
	clients   []*loadtest.Client // of the instances of the demonstration

	demo, shop *loadtest.Client // through nginx
}

// An instance is one of the demonstration, or of the order service.
type instance struct {
	*server.Server
	ready func(context.Context) error
}

// openSite starts everything. A server that is not installed is a server.MissingError.
func openSite(ctx context.Context, o Options) (s *site, err error) {
	s = new(site)
	s.stack, err = stack.Start(ctx, stack.Options{
		// Without an AOF a master that restarts before the Sentinels replace it comes back empty, and its replicas
		// copy that.
		Options: server.Options{AOF: true, Parent: o.Parent, Progress: o.Server}, AnyPort: true, Binary: o.Binary,
		Env: []string{
			"STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_WAIT=3s",
			"STOCK_ZOOKEEPER_SESSION_TIMEOUT=6s", // twice an election
		},
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.galera, err = s.stack.StartGalera(ctx, 3, "evs.suspect_timeout=PT3S"); err != nil {
		return nil, err
	}
	if s.haproxy, err = s.stack.FrontGalera(ctx, s.galera); err != nil {
		return nil, err
	}
	sentinels := server.SentinelOptions{Replicas: 2, DownAfter: downAfter}
	if s.redis, err = s.stack.StartSentinels(ctx, sentinels); err != nil {
		return nil, err
	}
	ensemble := server.EnsembleOptions{Silence: silence}
	if s.zookeeper, err = s.stack.StartZooKeeperEnsemble(ctx, ensemble); err != nil {
		return nil, err
	}
	var hosts []string
	for _, server := range s.zookeeper.Servers {
		hosts = append(hosts, server.Addr)
	}
	env := []string{
		"STOCK_MYSQL_DSN=" + s.haproxy.URL, "STOCK_MYSQL_SINGLE_WRITER=true",
		"STOCK_REDIS_URL=redis://" + s.redis.Addrs()[0] + "?master_name=" + s.redis.Name +
			"&addr=" + strings.Join(s.redis.Addrs(), "&addr="),
		"STOCK_ZOOKEEPER_HOSTS=" + strings.Join(hosts, ","),
	}
	if err = s.serveDemo(ctx, append(env, "STOCK_SEED_SKU=")); err != nil {
		return nil, err
	}
	return s, s.serveOrders(ctx)
}

// serveDemo starts two instances of the demonstration and an nginx in front of them.
func (s *site) serveDemo(ctx context.Context, env []string) error {
	started, err := s.stack.Serve(ctx, 2, env...)
	if err != nil {
		return err
	}
	for _, server := range started {
		client, err := loadtest.NewClient(server.URL, token, 4)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, client)
		ready := func(ctx context.Context) error { return allUp(ctx, client) }
		s.instances = append(s.instances, instance{server, ready})
	}
	front, err := s.stack.Front(ctx, started...)
	if err != nil {
		return err
	}
	s.demo, err = loadtest.NewClient(front.URL, token, 64)
	return err
}

// serveOrders starts two instances of the order service and an nginx in front of them.
func (s *site) serveOrders(ctx context.Context) error {
	started, err := s.stack.Orders(ctx, 2,
		"ORDERS_MYSQL_DSN="+stack.OrdersDSN(s.haproxy.URL),
		"ORDERS_HTTP_DRAIN=2s", // longer than nginx keeps an idle connection
	)
	if err != nil {
		return err
	}
	for _, server := range started {
		s.instances = append(s.instances, instance{server, stack.OrdersReady(server)})
	}
	front, err := s.stack.Front(ctx, started...)
	if err != nil {
		return err
	}
	s.shop, err = checkout.NewClient(front.URL, stack.OrdersSecret, 64)
	return err
}

// close stops everything.
func (s *site) close() error {
	for _, c := range append(s.clients, s.demo, s.shop) {
		if c != nil {
			c.Close()
		}
	}
	return s.stack.Stop()
}

// ready waits until every instance reports every server up.
func (s *site) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, i := range s.instances {
		for err := i.ready(ctx); err != nil; err = i.ready(ctx) {
			if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("%s is not ready: %w", i.Name, err)
			}
		}
	}
	return nil
}

func allUp(ctx context.Context, client *loadtest.Client) error {
	all, err := client.Backends(ctx)
	if err != nil {
		return err
	}
	for name, b := range all {
		if !b.Up && name != "redlock" { // there are no masters for it here
			return fmt.Errorf("%s is down: %s", name, b.Reason)
		}
	}
	return nil
}
