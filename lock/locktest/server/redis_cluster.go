package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// slots is the number of slots of every Redis Cluster.
const slots = 16384

// A RedisCluster is a Redis Cluster on this computer: three masters that share the slots, without replicas. Each is a
// [Server] of the stack and can be paused, killed and restarted. It comes back with its slots, and with its data if
// the stack keeps an AOF.
//
// While a master is down, its keys are unavailable. After 15 s (cluster-node-timeout) the others notice, and refuse all
// keys until it is back (cluster-require-full-coverage, the default of Redis Cluster).
type RedisCluster struct {
	// Nodes are the masters in the order of their slots: redis-cluster, redis-cluster-2, ... Each has an equal share.
	Nodes []*Server
}

// StartRedisCluster starts a cluster. It returns when every master knows all the others and serves, which takes some
// 3 s. Without redis-server the error is a MissingError. ctx bounds the start only.
func (s *Stack) StartRedisCluster(ctx context.Context) (*RedisCluster, error) {
	ctx, cancel := bounded(ctx, s.life)
	defer cancel()
	c, buses := new(RedisCluster), make([]int, 3) // the fewest that Redis accepts
	for i := range buses {
		node, err := s.Open(ctx, s.Name("redis-cluster"), s.clusterNode(&buses[i]))
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, node)
	}
	if err := c.form(ctx, buses); err != nil {
		return nil, fmt.Errorf("start a Redis Cluster: %w", err)
	}
	return c, nil
}

// Addrs returns the addresses for a cluster client.
func (c *RedisCluster) Addrs() []string { return addrs(c.Nodes) }

// Owner returns the node that has key, by its hash tag. It gets the slot from the first node that answers.
func (c *RedisCluster) Owner(ctx context.Context, key string) (*Server, error) {
	var failed []error
	for _, node := range c.Nodes {
		slot, err := askRedis(ctx, node.Addr, "CLUSTER", "KEYSLOT", key).Int()
		if err == nil {
			for i := range c.Nodes {
				if slot <= c.last(i) {
					return c.Nodes[i], nil
				}
			}
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("find the slot of %q: %w", key, errors.Join(failed...))
}

// last returns the last slot of a node.
func (c *RedisCluster) last(node int) int { return (node+1)*slots/len(c.Nodes) - 1 }

// clusterNode prepares one node. Its bus gets a port from reserve: the default, 10000 above the other port, is in the
// range of outgoing connections.
func (s *Stack) clusterNode(bus *int) Builder {
	return func(_ context.Context, name, dir string, port int) (server *Server, err error) {
		if *bus, err = s.reserve(); err != nil {
			return nil, err
		}
		return s.redisServer(name, dir, port,
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(*bus), "--cluster-announce-ip", "127.0.0.1")
	}
}

// form joins the new nodes, which have these ports for their buses, into a cluster.
func (c *RedisCluster) form(ctx context.Context, buses []int) error {
	first, ip := c.Nodes[0], "127.0.0.1"
	for i, node := range c.Nodes {
		for _, command := range [][]any{
			{"CLUSTER", "ADDSLOTSRANGE", c.last(i-1) + 1, c.last(i)},
			// Nodes with the same epoch have to resolve that first, which takes seconds.
			{"CLUSTER", "SET-CONFIG-EPOCH", i + 1},
		} {
			if err := askRedis(ctx, node.Addr, command...).Err(); err != nil {
				return fmt.Errorf("%s: %v: %w", node.Name, command, err)
			}
		}
		if node == first {
			continue
		}
		_, port, _ := net.SplitHostPort(node.Addr)
		if err := askRedis(ctx, first.Addr, "CLUSTER", "MEET", ip, port, buses[i]).Err(); err != nil {
			return fmt.Errorf("%s: CLUSTER MEET %s: %w", first.Name, node.Name, err)
		}
	}
	for _, node := range c.Nodes {
		err := until(ctx, node.Name+" serves all slots", func(ctx context.Context) error { return c.serves(ctx, node) })
		if err != nil {
			return err
		}
	}
	return nil
}

// serves returns nil if node sees all slots served, by all nodes of the cluster.
func (c *RedisCluster) serves(ctx context.Context, node *Server) error {
	info, err := askRedis(ctx, node.Addr, "CLUSTER", "INFO").Text()
	if err != nil {
		return err
	}
	for _, want := range []string{
		"cluster_state:ok", "cluster_slots_ok:" + strconv.Itoa(slots),
		"cluster_known_nodes:" + strconv.Itoa(len(c.Nodes)), "cluster_size:" + strconv.Itoa(len(c.Nodes)),
	} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("no %s yet", want)
		}
	}
	return nil
}

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, server := range servers {
		list[i] = server.Addr
	}
	return list
}
