package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// A leftover is a key of ours that a node has not confirmed to be gone. It goes by itself at until.
type leftover struct {
	name, value string
	until       time.Time
	looks       int // answers in vain after which it cannot come any more either; see recall
}

// leave has the leftover swept as soon as the node answers. One goroutine sweeps a node, however long the list; and the list ends with
// the first sweep in vain, because a silent node is not bid at any more.
func (n *node) leave(s *sweeper, release *script, l leftover) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = append(n.left, l)
	if !n.sweeping {
		n.sweeping = true
		s.add(func(ctx context.Context) error { return n.sweep(ctx, release) }, time.Now().Add(lock.Forever))
	}
}

// sweep deletes what is left of ours. An ErrDown says that there is more to do.
func (n *node) sweep(ctx context.Context, release *script) error {
	if n.silent.Load() {
		// What was left may have run out meanwhile: somebody has to find out that the node is back.
		if err := n.client.Ping(ctx).Err(); err != nil {
			return lock.Down("ask "+n.addr, err)
		}
		n.silent.Store(false)
	}
	for {
		n.mu.Lock()
		list := n.left
		n.left = nil
		n.sweeping = len(list) > 0
		n.mu.Unlock()
		if len(list) == 0 {
			return nil
		}
		var again []leftover
		for i, l := range list {
			if time.Now().After(l.until) {
				continue
			}
			switch err := verdict(release.run(ctx, n.client, []string{l.name}, l.value).Int()); {
			case errors.Is(err, lock.ErrDown):
				n.silent.Store(true)
				n.keep(append(again, list[i:]...))
				return err
			case err != nil && l.looks > 1:
				l.looks--
				again = append(again, l)
			}
		}
		if len(again) > 0 {
			n.keep(again)
			return errLookAgain
		}
	}
}

func (n *node) keep(list []leftover) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = append(list, n.left...)
}
