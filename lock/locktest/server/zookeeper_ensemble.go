package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A ZooKeeperEnsemble is a quorum of three ZooKeepers. Each is a [Server] of the stack and can be paused, killed and
// restarted.
type ZooKeeperEnsemble struct {
	// Servers are zookeeper-ha, zookeeper-ha-2 and zookeeper-ha-3. The first never becomes the leader at the start: of
	// servers with the same data the one with the largest id does, and two of them suffice.
	Servers []*Server
}

// EnsembleOptions are the choices of [Stack.StartZooKeeperEnsemble].
type EnsembleOptions struct {
	// Via returns the address by which the first server reaches another one as its leader, such as the address of a
	// proxy. addr is the other's own. A follower gets all updates on that connection. Nil: addr.
	Via func(addr string) (string, error)

	// Silence is how long followers serve without a message from their leader, and how long they wait for the first
	// one from a server that they take for the leader; default 30 s.
	Silence time.Duration
}

// Leader returns the server that says that it leads.
func (e *ZooKeeperEnsemble) Leader(ctx context.Context) (*Server, error) {
	var asked []error
	for _, server := range e.Servers {
		reply, err := ZooKeeperWord(ctx, server.Addr, "srvr")
		if err == nil && strings.Contains(reply, "Mode: leader") {
			return server, nil
		}
		asked = append(asked, err)
	}
	return nil, fmt.Errorf("no ZooKeeper leads: %w", errors.Join(asked...))
}

// StartZooKeeperEnsemble starts three servers. It returns when they serve, which takes some 3 s. A follower without
// messages from its leader serves its own state for o.Silence, and then nothing until it is connected again. Without
// ZooKeeper the error is a MissingError. ctx bounds the start only.
func (s *Stack) StartZooKeeperEnsemble(ctx context.Context, o EnsembleOptions) (*ZooKeeperEnsemble, error) {
	const members = 3
	o.Silence = cmp.Or(o.Silence, 30*time.Second)
	ctx, cancel := bounded(ctx, s.life)
	defer cancel()
	var quorum, election [members]int
	for i := range members {
		var err error
		if quorum[i], err = s.reserve(); err == nil {
			election[i], err = s.reserve()
		}
		if err != nil {
			return nil, fmt.Errorf("start an ensemble of ZooKeeper: %w", err)
		}
	}
	// They start together, because each waits for the others.
	var servers [members]*Server
	var failed [members]error
	var all sync.WaitGroup
	for i := range members {
		var peers bytes.Buffer
		for j := range members {
			addr := Local(quorum[j])
			if i == 0 && j != i && o.Via != nil {
				var err error
				if addr, err = o.Via(addr); err != nil {
					failed[i] = err
				}
			}
			fmt.Fprintf(&peers, "server.%d=%s:%d\n", j+1, addr, election[j])
		}
		name := s.Name("zookeeper-ha")
		all.Go(func() {
			if failed[i] == nil {
				servers[i], failed[i] = s.Open(ctx, name, s.zookeeperMember(i+1, o.Silence, peers.Bytes()))
			}
			if failed[i] != nil {
				cancel()
			}
		})
	}
	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return nil, fmt.Errorf("start an ensemble of ZooKeeper: %w", err)
	}
	return &ZooKeeperEnsemble{servers[:]}, nil
}

// zookeeperMember prepares a server of an ensemble.
func (s *Stack) zookeeperMember(id int, silence time.Duration, peers []byte) Builder {
	return func(_ context.Context, name, dir string, port int) (*Server, error) {
		data := filepath.Join(dir, "data")
		if err := os.MkdirAll(data, 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
			return nil, err
		}
		lines := fmt.Appendf(zookeeperConfig(data, port), "initLimit=%d\nsyncLimit=%[1]d\n",
			silence/zookeeperTick)
		const member = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
		return s.zookeeperServer(name, dir, port, member, append(lines, peers...))
	}
}
