package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
)

func TestContender(t *testing.T) { locktest.Contend(t, harnesses()...) }

// Every lock on ZooKeeper, as a service would use it, but for the length of its session. The nodes of one are its
// own, those of the other are everybody's.
func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	list := harnesses()
	for i := range list {
		list[i].Servers = []locktest.Server{{Addr: Servers.ZooKeeper(t)}}
	}
	locktest.Conform(t, list...)
}

func harnesses() []locktest.Harness {
	owned := Config{Root: "/owned/locks", Credentials: []string{ours}, CreatorOnly: true}
	return []locktest.Harness{
		// Without lock.HandOver, which would leave only one waiter for each process, and no herd.
		harness("zk-ephemeral", new(Ephemeral).Promise(), Config{Root: "/stock/locks"}, func(s *Session) lock.Locker {
			return NewEphemeral(s)
		}),
		harness("zk-sequential", new(Sequential).Promise(), owned, func(s *Session) lock.Locker {
			return lock.HandOver(NewSequential(s), lock.Bound{})
		}),
	}
}

func harness(
	name string, promise driver.Promise, config Config, lockOf func(*Session) lock.Locker,
) locktest.Harness {
	open := func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
		config := config
		config.Hosts, config.SessionTimeout = addrs, lease
		session, err := Dial(config)
		if err != nil {
			return nil, nil, err
		}
		return lockOf(session), session.Close, nil
	}
	return locktest.Harness{
		Name: name, Promise: promise, Renews: true, Wire: wire.ZooKeeper(), Refuse: refusal(-4242),
		Lease: 2 * time.Second, // long beside what a busy computer may stop a process for
		Left:  left(config.Root), Start: start,
		Keeps: "the empty folder of each key stays until the server removes it, which it looks after once a minute",
		Open:  open, Plain: []locktest.Opener{open}, // a Session makes its client by itself
	}
}

func start(t testing.TB) []locktest.Server {
	s := servertest.Server(t, server.ZooKeeper)
	return []locktest.Server{{Addr: s.Addr, Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume}}
}

// left returns a function that lists every node in the folder of a key. The folders themselves are containers, which
// the server removes in its own time.
func left(root string) func(context.Context, []string, string) ([]string, error) {
	return func(_ context.Context, addrs []string, key string) (found []string, err error) {
		conn, done, err := connect(addrs[0])
		if err != nil {
			return nil, err
		}
		defer done()
		folders, _, err := conn.Children(root)
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", root, err)
		}
		for _, folder := range folders {
			if !strings.HasPrefix(folder, key) {
				continue
			}
			nodes, _, err := conn.Children(root + "/" + folder)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return nil, err
			}
			for _, node := range nodes {
				found = append(found, folder+"/"+node)
			}
		}
		return found, nil
	}
}
