package zklock_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/zklock"
	"example.com/stock/service/strategy"
)

const credentials = "stock:secret"

// harnessSession is long beside what a busy computer may stop a process for.
const harnessSession = 2 * time.Second

func TestContender(t *testing.T) { locktest.Contend(t, harnesses(t)...) }

// Every strategy on ZooKeeper, as the catalogue makes it, but for the length of its session. The nodes of one are its
// own, those of the other are everybody's.
func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	list := harnesses(t)
	for i := range list {
		list[i].Servers = []locktest.Server{{Addr: zklock.Servers.ZooKeeper(t)}}
	}
	locktest.Conform(t, list...)
}

func harnesses(t *testing.T) (list []locktest.Harness) {
	for _, name := range []string{"zk-ephemeral", "zk-sequential"} {
		s, err := strategy.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		config := zklock.Config{}
		if name == "zk-sequential" {
			config = zklock.Config{Root: "/owned/locks", Credentials: []string{credentials}, CreatorOnly: true}
		}
		list = append(list, locktest.Harness{
			Name: name, Promise: s.Promise, Lease: harnessSession, Renews: true, Wire: wire.ZooKeeper(),
			Left: left(cmp.Or(config.Root, zklock.DefaultRoot)), Start: start,
			Keeps: "the empty folder of each key stays until the server removes it, which it looks after once a minute",
			Open: func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
				config := config
				config.Hosts, config.SessionTimeout = addrs, lease
				session, err := zklock.Dial(config)
				if err != nil {
					return nil, nil, err
				}
				return s.Lock(strategy.Servers{ZooKeeper: session}), session.Close, nil
			},
		})
	}
	return list
}

func start(t testing.TB) []locktest.Server {
	s := stacktest.Server(t, stack.ZooKeeper)
	return []locktest.Server{{Addr: s.Addr, Kill: s.Kill, Restart: s.Restart}}
}

// left returns a function that lists every node in the folder of a key. The folders themselves are containers, which
// the server removes in its own time.
func left(root string) func(context.Context, []string, string) ([]string, error) {
	return func(_ context.Context, addrs []string, key string) ([]string, error) {
		return leftBelow(root, addrs, key)
	}
}

func leftBelow(root string, addrs []string, key string) (found []string, err error) {
	quiet := zk.WithLogger(silent{slog.New(slog.DiscardHandler)})
	conn, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false), quiet)
	if err != nil {
		return nil, err
	}
	defer func() {
		conn.Close()
		for range events {
		}
	}()
	if err := conn.AddAuth("digest", []byte(credentials)); err != nil {
		return nil, err
	}
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

type silent struct{ *slog.Logger }

func (s silent) Printf(string, ...any) {}
