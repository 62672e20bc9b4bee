package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Sentinels are a Redis master, its replicas, and three Sentinels that watch them and promote a replica when the master
// is gone. Each is a [Server] of the stack and can be paused, killed and restarted. The Sentinels make a former master
// a replica when it comes back.
type Sentinels struct {
	Name      string    // of the master, for the Sentinels and their clients
	Redis     []*Server // redis-ha, the first master; redis-ha-2, ..., its first replicas
	Sentinels []*Server // sentinel, sentinel-2, sentinel-3: two of them must agree
}

// DownAfter is how long a master does not answer until it is replaced. It includes stalls of the whole computer.
const DownAfter = 2 * time.Second

// StartSentinels starts a master with that many replicas, and the Sentinels. It returns when the replicas follow the
// master, and every Sentinel knows the others and all replicas, which takes some 3 s. Without redis-server the error is
// a MissingError. ctx bounds the start only.
func (s *Stack) StartSentinels(ctx context.Context, replicas int) (*Sentinels, error) {
	ctx, cancel := bounded(ctx, s.life)
	defer cancel()
	x := &Sentinels{Name: "stock"}
	for range 1 + replicas {
		server, err := s.Open(ctx, s.Name("redis-ha"), s.replicated(x.Redis))
		if err != nil {
			return nil, err
		}
		x.Redis = append(x.Redis, server)
	}
	// This comes before the Sentinels: each asks the master for its replicas at once, and then only every ten seconds.
	following := func(ctx context.Context) error { return follow(ctx, x.Redis[0], replicas) }
	if err := until(ctx, "the replicas follow", following); err != nil {
		return nil, err
	}
	for range 3 {
		server, err := s.Open(ctx, s.Name("sentinel"), s.sentinel(x))
		if err != nil {
			return nil, err
		}
		x.Sentinels = append(x.Sentinels, server)
	}
	if err := x.settle(ctx); err != nil {
		return nil, fmt.Errorf("start Redis with Sentinels: %w", err)
	}
	return x, nil
}

// Addrs returns the addresses of the Sentinels. A client needs them and Name.
func (x *Sentinels) Addrs() []string { return addrs(x.Sentinels) }

// Master returns the server that all answering Sentinels name as the master, if its own role agrees.
func (x *Sentinels) Master(ctx context.Context) (*Server, error) {
	named, asked := "", []error(nil)
	for _, sentinel := range x.Sentinels {
		at, err := askRedis(ctx, sentinel.Addr, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", x.Name).StringSlice()
		if err != nil || len(at) != 2 {
			asked = append(asked, fmt.Errorf("%s: %v: %w", sentinel.Name, at, err))
			continue
		}
		addr := net.JoinHostPort(at[0], at[1])
		if named != "" && named != addr {
			return nil, fmt.Errorf("the Sentinels name %s and %s", named, addr)
		}
		named = addr
	}
	for _, server := range x.Redis {
		if server.Addr != named {
			continue
		}
		role, err := askRedis(ctx, server.Addr, "ROLE").Slice()
		if err == nil && len(role) > 0 && role[0] != "master" {
			err = fmt.Errorf("it says that it is a %v", role[0])
		}
		if err != nil {
			return nil, fmt.Errorf("%s, which the Sentinels name: %w", server.Name, err)
		}
		return server, nil
	}
	return nil, fmt.Errorf("no Sentinel names a master: %w", errors.Join(asked...))
}

// AwaitMaster returns the new master when the Sentinels have replaced old. That takes DownAfter and a second or so.
// If their first election has no winner, or if a busy computer makes them distrust their own clocks (TILT), it takes
// half a minute more. So let ctx last for two minutes.
func (x *Sentinels) AwaitMaster(ctx context.Context, old *Server) (*Server, error) {
	var master *Server
	err := until(ctx, "there is another master than "+old.Name, func(ctx context.Context) error {
		var err error
		if master, err = x.Master(ctx); err == nil && master == old {
			err = errors.New("it still is")
		}
		return err
	})
	return master, err
}

// Sever cuts the replicas off from the master, so that they get no further writes. They remain replicas, and Sentinel
// may promote them if the master dies within ten times DownAfter. Join reconnects them.
func (x *Sentinels) Sever(ctx context.Context) error {
	master, err := x.Master(ctx)
	if err != nil {
		return fmt.Errorf("sever the replicas: %w", err)
	}
	for _, server := range x.Redis {
		if server == master {
			continue
		}
		// The master has no password and refuses a replica that gives one, so the link stays broken.
		if err := askRedis(ctx, server.Addr, "CONFIG", "SET", "masterauth", "severed").Err(); err != nil {
			return fmt.Errorf("sever %s: %w", server.Name, err)
		}
	}
	if err := askRedis(ctx, master.Addr, "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		return fmt.Errorf("sever the replicas of %s: %w", master.Name, err)
	}
	return until(ctx, "no replica follows", func(ctx context.Context) error { return follow(ctx, master, 0) })
}

// Join reconnects what Sever has cut off, and returns when all other servers follow the master, also a former master
// that has come back. Every server must run. Let ctx last for a minute.
func (x *Sentinels) Join(ctx context.Context) error {
	return until(ctx, "all replicas follow", func(ctx context.Context) error {
		for _, server := range x.Redis {
			if err := askRedis(ctx, server.Addr, "CONFIG", "SET", "masterauth", "").Err(); err != nil {
				return fmt.Errorf("%s: %w", server.Name, err)
			}
		}
		master, err := x.Master(ctx)
		if err != nil {
			return err
		}
		return follow(ctx, master, len(x.Redis)-1)
	})
}

// FailOver makes a Sentinel replace the master although that answers. After Sever it is what the clients of a master
// see that a partition has cut off from its replicas and the Sentinels: it accepts their writes until they learn of the
// new one.
func (x *Sentinels) FailOver(ctx context.Context) error {
	if err := askRedis(ctx, x.Sentinels[0].Addr, "SENTINEL", "FAILOVER", x.Name).Err(); err != nil {
		return fmt.Errorf("force a fail-over: %w", err)
	}
	return nil
}

// follow returns nil if that many replicas are in step with the master.
func follow(ctx context.Context, master *Server, replicas int) error {
	role, err := askRedis(ctx, master.Addr, "ROLE").Slice()
	if err != nil {
		return err
	}
	if len(role) < 3 {
		return fmt.Errorf("%s is no master: %v", master.Name, role)
	}
	if list, _ := role[2].([]any); len(list) != replicas {
		return fmt.Errorf("%d replicas follow", len(list))
	}
	return nil
}

// settle waits until every Sentinel knows the other Sentinels and all replicas.
func (x *Sentinels) settle(ctx context.Context) error {
	replicas := len(x.Redis) - 1
	for _, sentinel := range x.Sentinels {
		if err := until(ctx, sentinel.Name+" knows all", func(ctx context.Context) error {
			state, err := askRedis(ctx, sentinel.Addr, "SENTINEL", "MASTER", x.Name).Result()
			if err != nil {
				return err
			}
			fields, _ := state.(map[any]any)
			for field, want := range map[string]string{
				"flags": "master", "num-slaves": strconv.Itoa(replicas),
				"num-other-sentinels": strconv.Itoa(len(x.Sentinels) - 1),
			} {
				if fields[field] != want {
					return fmt.Errorf("%s is %v, not %s", field, fields[field], want)
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// replicated prepares a master, or a replica of the first of others. A fail-over writes the new role to the server's
// file, as in production, so the role survives a restart.
func (s *Stack) replicated(others []*Server) Builder {
	return func(_ context.Context, name, dir string, port int) (*Server, error) {
		lines := "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n"
		if len(others) > 0 {
			host, master, _ := net.SplitHostPort(others[0].Addr)
			lines += "replicaof " + host + " " + master + "\n"
		}
		file := filepath.Join(dir, "redis.conf")
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			return nil, err
		}
		return s.redisServer(name, dir, port, file)
	}
}

// sentinel prepares one Sentinel. It stores the other Sentinels and the current master in its file.
func (s *Stack) sentinel(x *Sentinels) Builder {
	return func(_ context.Context, name, dir string, port int) (*Server, error) {
		host, master, _ := net.SplitHostPort(x.Redis[0].Addr)
		lines := fmt.Sprintf("sentinel monitor %s %s %s 2\n", x.Name, host, master) +
			fmt.Sprintf("sentinel down-after-milliseconds %s %d\n", x.Name, DownAfter.Milliseconds()) +
			fmt.Sprintf("sentinel failover-timeout %s 6000\n", x.Name)
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
			return nil, err
		}
		return s.redisServer(name, dir, port, file, "--sentinel")
	}
}
