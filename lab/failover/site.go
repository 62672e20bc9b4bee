package failover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/loadtest"
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
	galera    *stack.Galera
	haproxy   *stack.Server
	redis     *stack.Sentinels
	zookeeper *stack.ZooKeeperEnsemble
	instances []*stack.Server
	clients   []*loadtest.Client // of each instance

	demo, shop *loadtest.Client // through nginx
}

// openSite starts everything. A server that is not installed is a MissingError of package stack.
func openSite(ctx context.Context, o Options) (s *site, err error) {
	s = new(site)
	s.stack, err = stack.Start(ctx, stack.Options{
		// Without an AOF a master that restarts before the Sentinels replace it comes back empty, and its replicas
		// copy that.
		AOF: true, AnyPort: true, Binary: o.Binary, Parent: o.Parent, Progress: o.Server,
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
	sentinels := stack.SentinelOptions{Replicas: 2, DownAfter: downAfter}
	if s.redis, err = s.stack.StartSentinels(ctx, sentinels); err != nil {
		return nil, err
	}
	ensemble := stack.EnsembleOptions{Silence: silence}
	if s.zookeeper, err = s.stack.StartZooKeeperEnsemble(ctx, ensemble); err != nil {
		return nil, err
	}
	var hosts []string
	for _, server := range s.zookeeper.Servers {
		hosts = append(hosts, server.Addr)
	}
	env := []string{
		"STOCK_MYSQL_DSN=" + s.haproxy.URL, "STOCK_MYSQL_SINGLE_WRITER=true",
		"STOCK_REDIS_ADDRS=" + strings.Join(s.redis.Addrs(), ","), "STOCK_REDIS_MASTER_NAME=" + s.redis.Name,
		"STOCK_ZOOKEEPER_HOSTS=" + strings.Join(hosts, ","),
	}
	if s.demo, err = s.serve(ctx, append(env, "STOCK_SEED_SKU=")); err != nil {
		return nil, err
	}
	s.shop, err = s.serve(ctx, append(env, "STOCK_PROFILE=orders", "STOCK_STORE=mysql"))
	return s, err
}

// serve starts two instances and an nginx in front of them, and returns a client of that.
func (s *site) serve(ctx context.Context, env []string) (*loadtest.Client, error) {
	started, err := s.stack.Serve(ctx, 2, env...)
	if err != nil {
		return nil, err
	}
	front, err := s.stack.Front(ctx, started...)
	if err != nil {
		return nil, err
	}
	for _, instance := range started {
		client, err := loadtest.NewClient(instance.URL, token, 4)
		if err != nil {
			return nil, err
		}
		s.instances, s.clients = append(s.instances, instance), append(s.clients, client)
	}
	return loadtest.NewClient(front.URL, token, 64)
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
	for i, client := range s.clients {
		for err := allUp(ctx, client); err != nil; err = allUp(ctx, client) {
			if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
				return fmt.Errorf("%s is not ready: %w", s.instances[i].Name, err)
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
