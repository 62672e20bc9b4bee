package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"
)

type mute struct{}

func (mute) Printf(string, ...any) {}

// openZKLock opens the client library's own lock, which has no ctx.
func openZKLock(shared bool) func(context.Context, task) ([]turn, error) {
	return func(_ context.Context, t task) ([]turn, error) {
		c := redisClient(t)
		var turns []turn
		var conn *zk.Conn
		for range t.Contenders {
			if conn == nil || !shared {
				next, events, err := zk.Connect([]string{t.ZooKeeper}, 10*time.Second, zk.WithLogger(mute{}),
					zk.WithLogInfo(false))
				if err != nil {
					return nil, fmt.Errorf("connect: %w", err)
				}
				go func() { // the library blocks on events that nobody takes; ends with the process
					for range events {
					}
				}()
				conn = next
			}
			mine := conn
			turns = append(turns, func(ctx context.Context, key string) (bool, error) {
				l := zk.NewLock(mine, "/bench/"+key, zk.WorldACL(zk.PermAll))
				if err := l.Lock(); err != nil {
					return false, err
				}
				err := t.count(ctx, c, key)
				return err == nil, errors.Join(err, l.Unlock())
			})
		}
		return turns, nil
	}
}
