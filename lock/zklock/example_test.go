package zklock_test

import (
	"context"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/zklock"
)

// One session serves all locks of a process. Its time limit is how long a key stays taken after a crash.
func ExampleDial() {
	session, err := zklock.Dial(zklock.Config{
		Hosts:          []string{zklock.Servers.URL(server.ZooKeeper)}, // such as zk1:2181, zk2:2181, zk3:2181
		SessionTimeout: 10 * time.Second,
		ConnectTimeout: 10 * time.Second,
		Root:           "/example/locks",
	})
	if err != nil {
		panic(err)
	}
	defer session.Close()
	locker := lock.HandOver(zklock.NewSequential(session), lock.Bound{})

	err = lock.Do(context.Background(), locker, "invoice/7", lock.Options{},
		func(_ context.Context, fence lock.Fence) error {
			fmt.Println("fenced:", fence != lock.NoFence)
			return nil
		})
	fmt.Println(err)
	// Output:
	// fenced: true
	// <nil>
}
