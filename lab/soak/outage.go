package soak

import (
	"context"
	"errors"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// The servers that fail.
const (
	mariadb   = "mariadb"
	mysql     = string(server.MySQL) // as the stock in MariaDB is called
	redis     = string(server.Redis)
	zookeeper = "zookeeper"
	instances = "instances"

	everything = "all"
)

// A fault is one thing that fails.
type fault struct {
	name   string
	server string
	begin  begin
}

func (f fault) said() words.Text { return say("outage." + f.name) }

// faults returns the faults in their order.
func (s *cluster) faults(short bool) []fault {
	list := []fault{
		{"kill-mariadb", mariadb, s.killing(s.writer)},
		{"kill-redis", redis, s.killing(s.redis.Master)},
		{"kill-zookeeper", zookeeper, s.killing(s.zookeeper.Leader)},
		{"restart-instances", instances, s.rolling},
	}
	if short {
		return list
	}
	return append(list,
		fault{"isolate-mariadb", mariadb, s.isolateWriter},
		fault{"freeze-mariadb", mariadb, s.freezing(s.writer)},
		fault{"isolate-redis", redis, s.isolateMaster},
		fault{"freeze-redis", redis, s.freezing(s.redis.Master)},
		fault{"freeze-zookeeper", zookeeper, s.freezing(s.zookeeper.Leader)},
		fault{"restart-servers", everything, s.restartServers},
	)
}

// writer returns the node to which HAProxy leads.
func (s *cluster) writer(ctx context.Context) (*server.Server, error) {
	return s.galera.Behind(ctx, s.haproxy)
}

// A begin makes something fail, and returns the function that mends it, or nil.
type begin func(context.Context) (heal func(context.Context) error, err error)

// A finder returns the server that fails.
type finder func(context.Context) (*server.Server, error)

// killing kills (SIGKILL) a server, and starts it again when everything sells without it.
func (s *cluster) killing(find finder) begin {
	return s.breaking(find, (*server.Server).Kill, (*server.Server).Restart)
}

// freezing suspends (SIGSTOP) a server until everything sells without it. To all others that is a partition: its
// connections are open, and nothing comes. Then it goes on, and believes for a moment that it leads.
func (s *cluster) freezing(find finder) begin {
	return s.breaking(find, (*server.Server).Pause, func(server *server.Server, _ context.Context) error {
		return server.Resume()
	})
}

// breaking fails a server by down and mends it by up. The next fault must find all replicas of Redis in step.
func (s *cluster) breaking(
	find finder, down func(*server.Server) error, up func(*server.Server, context.Context) error,
) begin {
	return func(ctx context.Context) (func(context.Context) error, error) {
		server, err := find(ctx)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return errors.Join(up(server, ctx), s.redis.Join(ctx)) }, down(server)
	}
}

// isolateWriter cuts the node off from the other nodes. The instances still reach it.
func (s *cluster) isolateWriter(ctx context.Context) (func(context.Context) error, error) {
	node, err := s.writer(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return s.galera.Isolate(ctx, node, false) },
		s.galera.Isolate(ctx, node, true)
}

// isolateMaster cuts the master off from its replicas, and lets the Sentinels replace it after the time after which
// they replace one that is silent. Until its clients learn of that it accepts their writes, and all of these are lost.
func (s *cluster) isolateMaster(ctx context.Context) (func(context.Context) error, error) {
	old, err := s.redis.Master(ctx)
	if err != nil {
		return nil, err
	}
	err = errors.Join(s.redis.Sever(ctx), loadtest.Sleep(ctx, server.DownAfter), s.redis.FailOver(ctx))
	if err != nil {
		return nil, err
	}
	_, err = s.redis.AwaitMaster(ctx, old)
	return s.redis.Join, err
}

// rolling restarts one instance after the other (SIGTERM).
func (s *cluster) rolling(ctx context.Context) (func(context.Context) error, error) {
	for _, i := range s.instances() {
		if err := s.restart(ctx, i); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// restartServers restarts one server after the other (SIGTERM), those that lead last.
func (s *cluster) restartServers(ctx context.Context) (func(context.Context) error, error) {
	writer, err := s.writer(ctx)
	master, failed := s.redis.Master(ctx)
	leader, none := s.zookeeper.Leader(ctx)
	if err := errors.Join(err, failed, none); err != nil {
		return nil, err
	}
	var last []*server.Server
	for _, group := range [][]*server.Server{
		s.zookeeper.Servers, s.redis.Redis, s.redis.Sentinels, s.galera.Nodes,
	} {
		for _, server := range group {
			if server == writer || server == master || server == leader {
				last = append(last, server)
			} else if err := s.restart(ctx, server); err != nil {
				return nil, err
			}
		}
	}
	for _, server := range last {
		if err := s.restart(ctx, server); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// restart restarts a server, and waits until every instance reports every server up.
func (s *cluster) restart(ctx context.Context, server *server.Server) error {
	return errors.Join(server.Restart(ctx), s.redis.Join(ctx), s.ready(ctx))
}
