package zklock_test

import (
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/zklock"
)

func TestAllOfSequential(t *testing.T) {
	t.Parallel()
	host := zklock.Servers.ZooKeeper(t)
	open := func() lock.Locker {
		s, err := zklock.Dial(zklock.Config{
			Hosts: []string{host}, SessionTimeout: 10 * time.Second, ConnectTimeout: 10 * time.Second,
			Root: "/" + t.Name(),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return zklock.NewSequential(s)
	}
	locktest.Carts(t, true, [2]lock.Locker{open(), open()})
}
