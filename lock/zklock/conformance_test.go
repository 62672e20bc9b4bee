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

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/zklock"
)

const credentials = "stock:secret"

// harnessSession is long beside what a busy computer may stop a process for.
const harnessSession = 2 * time.Second

func TestContender(t *testing.T) { locktest.Contend(t, harnesses()...) }

// Every lock on ZooKeeper, as a service would use it, but for the length of its session. The nodes of one are its
// own, those of the other are everybody's.
func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	list := harnesses()
	for i := range list {
		list[i].Servers = []locktest.Server{{Addr: zklock.Servers.ZooKeeper(t)}}
	}
	locktest.Conform(t, list...)
}

// A kind makes a lock, as a service would use it.
type kind struct {
	name    string
	promise driver.Promise
	open    func(*zklock.Session) lock.Locker
}

func kinds() []kind {
	return []kind{
		// Without lock.HandOver, which would leave only one waiter for each process, and no herd.
		{"zk-ephemeral", new(zklock.Ephemeral).Promise(), func(s *zklock.Session) lock.Locker {
			return zklock.NewEphemeral(s)
		}},
		{"zk-sequential", new(zklock.Sequential).Promise(), func(s *zklock.Session) lock.Locker {
			return lock.HandOver(zklock.NewSequential(s), lock.Bound{})
		}},
	}
}

func harnesses() (list []locktest.Harness) {
	for _, k := range kinds() {
		config := zklock.Config{}
		if k.name == "zk-sequential" {
			config = zklock.Config{Root: "/owned/locks", Credentials: []string{credentials}, CreatorOnly: true}
		}
		open := func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
			config := config
			config.Hosts, config.SessionTimeout = addrs, lease
			session, err := zklock.Dial(config)
			if err != nil {
				return nil, nil, err
			}
			l := k.open(session)
			return l, func() error {
				var failed error
				if c, ok := l.(interface{ Close() error }); ok {
					failed = c.Close()
				}
				return errors.Join(failed, session.Close())
			}, nil
		}
		list = append(list, locktest.Harness{
			Name: k.name, Promise: k.promise, Lease: harnessSession, Renews: true, Wire: wire.ZooKeeper(),
			Refuse: zklock.Refusal(-4242),
			Left:   left(cmp.Or(config.Root, zklock.DefaultRoot)), Start: start,
			Keeps: "the empty folder of each key stays until the server removes it, which it looks after once a minute",
			Open:  open, Plain: []locktest.Opener{open}, // a Session makes its client by itself
		})
	}
	return list
}

func start(t testing.TB) []locktest.Server {
	s := servertest.Server(t, server.ZooKeeper)
	return []locktest.Server{{Addr: s.Addr, Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume}}
}

// left returns a function that lists every node in the folder of a key. The folders themselves are containers, which
// the server removes in its own time.
func left(root string) func(context.Context, []string, string) ([]string, error) {
	return func(_ context.Context, addrs []string, key string) ([]string, error) {
		return leftBelow(root, addrs, key)
	}
}

func leftBelow(root string, addrs []string, key string) (found []string, err error) {
	conn, done, err := client(addrs)
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

// client returns a plain client with our credentials.
func client(addrs []string) (conn *zk.Conn, done func(), err error) {
	quiet := zk.WithLogger(silent{slog.New(slog.DiscardHandler)})
	conn, events, err := zk.Connect(addrs, 10*time.Second, zk.WithLogInfo(false), quiet)
	if err != nil {
		return nil, nil, err
	}
	done = func() {
		conn.Close()
		for range events {
		}
	}
	if err := conn.AddAuth("digest", []byte(credentials)); err != nil {
		done()
		return nil, nil, err
	}
	return conn, done, nil
}

type silent struct{ *slog.Logger }

func (s silent) Printf(string, ...any) {}

// No lock makes a node that others may use: not the folders, the fences or the holder's node. A
// waiter's node is made like the holder's.
func TestLocksLeaveNoOpenNode(t *testing.T) {
	t.Parallel()
	host := zklock.Servers.ZooKeeper(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			root := "/open-" + k.name
			session, err := zklock.Dial(zklock.Config{
				Hosts: []string{host}, Root: root + "/locks", ConnectTimeout: 10 * time.Second,
				Credentials: []string{credentials}, CreatorOnly: true,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { session.Close() })
			lease, err := k.open(session).Acquire(t.Context(), "sku", lock.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c, done, err := client([]string{host})
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			all := []string{root}
			for i := 0; i < len(all); i++ {
				names, _, err := c.Children(all[i])
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range names {
					all = append(all, all[i]+"/"+name)
				}
				acl, _, err := c.GetACL(all[i])
				if err != nil || len(acl) != 1 || acl[0].Scheme != "digest" {
					t.Errorf("%s: %v, %v", all[i], acl, err)
				}
			}
			if len(all) < 6 { // two of the root, two of the fences, the folder, the holder
				t.Errorf("only %v", all)
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
	}
}
