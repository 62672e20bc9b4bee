package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// unsureLife is how long a request without an answer is reckoned with: it may wait in the socket of a server that is stopped,
// and be done when that goes on.
const unsureLife = time.Hour

var errLookAgain = lock.Down("look for a late request", errors.New("not found yet"))

// recall takes back what a request without an answer has done, or will yet do. tell looks whose key it is, deletes it if it
// is ours, and is then nil.
//
// It tells once before it returns, on a context of its own. That nothing was found then proves nothing: Redis reads its connections in no
// promised order, and the request may come after. Once the server has answered, though, it has read all that had come before: whoever
// asks a second time after an answer knows. So it looks again in the background until something was found or two answers have come.
func (s *sweeper) recall(ctx context.Context, tell func(context.Context) error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	answers := 0
	look := func(ctx context.Context) error {
		err := tell(ctx)
		if err == nil || errors.Is(err, lock.ErrDown) {
			return err
		}
		if answers++; answers < 2 {
			return errLookAgain
		}
		return nil
	}
	if look(detached) != nil {
		s.add(look, time.Now().Add(unsureLife))
	}
}

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

// A sweeper is a lock.Sweeper of questions that are to be asked until the server answers.
type sweeper struct{ *lock.Sweeper }

func newSweeper() *sweeper { return &sweeper{lock.NewSweeper()} }

// add calls free until the server has answered, or its lease has run out at until.
func (s *sweeper) add(free func(context.Context) error, until time.Time) {
	s.Add(until, func(ctx context.Context) bool { return !errors.Is(free(ctx), lock.ErrDown) })
}

// close gives up: what is left runs out by itself.
func (s *sweeper) close() { s.Close() }
