package soak

import (
	"context"
	"errors"
	"strings"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
)

// silence is how long a ZooKeeper leader may be silent before the others replace it.
const silence = 3 * time.Second

// A cluster is a site in which every server can fail over. nginx is in front of the instances.
type cluster struct {
	*site
	galera    *server.Galera
	haproxy   *server.Server
	redis     *server.Sentinels
	zookeeper *server.ZooKeeperEnsemble
}

// openCluster starts everything. A server that is not installed is a server.MissingError. The AOF of a site is needed:
// without it a master that restarts before the Sentinels replace it comes back empty, and its replicas copy that.
func openCluster(ctx context.Context, o Options) (s *cluster, err error) {
	s = new(cluster)
	s.site, err = newSite(ctx, o, stack.Options{Env: []string{
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=6s", // twice an election
	}})
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
	if s.redis, err = s.stack.StartSentinels(ctx, 2); err != nil {
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
		stack.SentinelsSetting(s.redis),
		"STOCK_ZOOKEEPER_HOSTS=" + strings.Join(hosts, ","),
	}
	demo, err := s.stack.Serve(ctx, 2, append(env, "STOCK_SEED_SKU=")...)
	if err != nil {
		return nil, err
	}
	if err := s.front(ctx, demo, s.sellAt); err != nil {
		return nil, err
	}
	orders, err := s.stack.Orders(ctx, 2,
		"ORDERS_MYSQL_DSN="+stack.OrdersDSN(s.haproxy.URL),
		"ORDERS_HTTP_DRAIN=2s", // longer than nginx keeps an idle connection
	)
	if err != nil {
		return nil, err
	}
	if err := s.front(ctx, orders, s.orderAt); err != nil {
		return nil, err
	}
	return s, s.ready(ctx)
}

// front starts an nginx in front of instances, for the customers of buyAt.
func (s *cluster) front(ctx context.Context, behind []*server.Server, buyAt func(*server.Server) error) error {
	nginx, err := s.stack.Front(ctx, behind...)
	if err != nil {
		return err
	}
	return buyAt(nginx)
}
