package zklock_test

import (
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

// harnessSession is long beside what a busy computer may stop a process for.
const harnessSession = 2 * time.Second

func TestContender(t *testing.T) { locktest.Contend(t, harnesses(t)...) }

// Every strategy on ZooKeeper, as the catalogue makes it, but for the length of its session.
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
		list = append(list, locktest.Harness{
			Name: name, Promise: s.Promise, Lease: harnessSession, Renews: true, Wire: wire.ZooKeeper(),
			Left: left, Start: start,
			Keeps: "the empty folder of each key stays until the server removes it, which it looks after once a minute",
			Open: func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
				session, err := zklock.Dial(zklock.Config{Hosts: addrs, SessionTimeout: lease})
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

// left is every node in the folder of a key. The folders themselves are containers, which the server removes in its
// own time.
func left(_ context.Context, addrs []string, key string) (found []string, err error) {
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
	folders, _, err := conn.Children(zklock.DefaultRoot)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", zklock.DefaultRoot, err)
	}
	for _, folder := range folders {
		if !strings.HasPrefix(folder, key) {
			continue
		}
		nodes, _, err := conn.Children(zklock.DefaultRoot + "/" + folder)
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
