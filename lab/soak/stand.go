package soak

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
	"example.com/stock/stack/wire"
)

// token lets the soak set stock and ask for long critical sections; the instances listen on this computer only.
const token = "soak"

// serverNames are the servers that faults are done to, in a fixed order.
func serverNames() []string {
	return []string{string(stack.Redis), string(stack.ZooKeeper), string(stack.MySQL)}
}

// instanceNames are those that package stack gives.
func instanceNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("app-%d", i+1))
	}
	return names
}

// env makes leases short, so that faults outlast them, and the work longer than the leases: a holder that was paused past its lease would
// otherwise find its time in the critical section over, and the fence would have nothing to refuse.
func env() []string {
	return []string{
		"STOCK_LAB=true", "STOCK_ADMIN_TOKEN=" + token, "STOCK_LOG_LEVEL=warn", "STOCK_DRAIN=0s", "STOCK_STOP=3s",
		"STOCK_WAIT=3s", "STOCK_WORK=6s", "STOCK_REDIS_TIMEOUT=" + redisTimeout.String(),
		"STOCK_LOCK_SETNX_LEASE=" + lease.String(), "STOCK_LOCK_WATCHDOG_LEASE=" + lease.String(),
		"STOCK_ZOOKEEPER_SESSION_TIMEOUT=" + (lease + time.Second).String(),
	}
}

// A stand is the servers, the instances, and a link of its own from each instance to each server.
type stand struct {
	stack     *stack.Stack
	instances []*instance
	links     map[string]*wire.Proxy
}

// An instance is one of the processes that sell.
type instance struct {
	*stack.Server
	seller *seller
	client *loadtest.Client
}

// openStand starts everything. A server that is not installed is an error: a soak without it would say less than it seems to.
func openStand(ctx context.Context, o Options) (s *stand, err error) {
	s = &stand{links: make(map[string]*wire.Proxy)}
	s.stack, err = stack.Start(ctx, stack.Options{
		Want: []stack.Kind{stack.Redis, stack.ZooKeeper, stack.MySQL}, AOF: true, AnyPort: true,
		Binary: o.Binary, Parent: o.Parent, Env: env(), Progress: o.Server,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	for name, reason := range s.stack.Missing() {
		return nil, &MissingError{name, reason}
	}
	for _, name := range instanceNames(o.Instances) {
		if err := s.serve(ctx, name); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// A MissingError says which server is not installed.
type MissingError struct{ Server, Reason string }

func (e *MissingError) Error() string { return e.Server + ": " + e.Reason }

// serve opens an instance's links, and starts it.
func (s *stand) serve(ctx context.Context, name string) error {
	protocols := map[string]wire.Protocol{string(stack.Redis): wire.Redis(), string(stack.ZooKeeper): wire.ZooKeeper(), string(stack.MySQL): wire.MySQL()}
	via := make(map[string]string)
	for _, server := range serverNames() {
		p, err := wire.Listen(s.stack.Server(server).Addr, protocols[server])
		if err != nil {
			return err
		}
		s.links[link(name, server)], via[server] = p, p.Addr()
	}
	started, err := s.stack.Serve(ctx, 1,
		"STOCK_REDIS_ADDRS="+via[string(stack.Redis)], "STOCK_ZOOKEEPER_HOSTS="+via[string(stack.ZooKeeper)],
		"STOCK_MYSQL_DSN=root@tcp("+via[string(stack.MySQL)]+")/stock")
	if err != nil {
		return err
	}
	if started[0].Name != name {
		return fmt.Errorf("an instance is called %s, expected %s", started[0].Name, name)
	}
	client, err := loadtest.NewClient(started[0].URL, token, 4)
	if err != nil {
		return err
	}
	s.instances = append(s.instances, &instance{started[0], newSeller(started[0].URL), client})
	return nil
}

// close ends everything.
func (s *stand) close() error {
	for _, i := range s.instances {
		i.client.Close()
		i.seller.close()
	}
	failed := []error{s.stack.Stop()}
	for _, p := range s.links {
		failed = append(failed, p.Close())
	}
	return errors.Join(failed...)
}
