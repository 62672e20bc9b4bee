package main

import (
	"context"
	"errors"
	"fmt"

	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
	"example.com/stock/service/strategy"
)

// shipped opens a strategy of the catalogue with the options of the service. If plain is true, it is without what the
// catalogue puts around the lock. It is used as the service uses it, through lock.Do: fenced, renewed, and with a ctx
// that ends when the lease is lost.
func shipped(name string, plain bool) func(context.Context, task) ([]turn, error) {
	return func(_ context.Context, t task) ([]turn, error) {
		s, err := strategy.Lookup(name)
		if err != nil {
			return nil, err
		}
		if s.Lock == nil {
			return nil, fmt.Errorf("strategy %s is no lock", name)
		}
		c := redisClient(t)
		servers := strategy.Servers{Redis: c, PlainLocks: plain}
		if t.ZooKeeper != "" {
			if servers.ZooKeeper, err = zklock.Dial(zklock.Config{Hosts: []string{t.ZooKeeper}}); err != nil {
				return nil, err
			}
		}
		l := s.Lock(servers)
		return alike(t.Contenders, func(ctx context.Context, key string) (worked bool, err error) {
			err = lock.Do(ctx, l, key, lock.Options{}, func(ctx context.Context, fence lock.Fence) error {
				if fence == lock.NoFence {
					return errors.New("the lease has no fence")
				}
				err := t.count(ctx, c, key)
				worked = err == nil
				return err
			})
			return worked, err
		}), nil
	}
}
