package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// The reply to the create is lost and the link stays silent: Acquire cannot know whether there is a node, and says
// that the server is down. The node goes as soon as the link is back, and not with the session only, which lives on.
func TestOrphanIsSweptWithinTheSession(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			host := Servers.ZooKeeper(t)
			p, c := proxied(t, host), raw(t, host, "")
			s := open(t, Config{Hosts: []string{p.Addr()}, SessionTimeout: 20 * time.Second})
			l := k.open(s)
			release(t, acquire(t, l)) // makes the folder
			session := s.current.Load()
			left := func() int { return len(nodes(t, c, recipeOf(l))) }
			create := p.Set(wire.Trap{On: wire.ToServer, Match: is(opMulti), Do: wire.HoldReply})
			failed := make(chan error, 1)
			go func() { _, err := l.Acquire(t.Context(), key, lock.Options{}); failed <- err }()
			<-create.Sprung()
			p.Silence(wire.ToServer, wire.ToClient)
			eventually(t, "an orphan", func() bool { return left() == 1 })
			if k.name == herding.name { // the connection breaks and the next one hangs; the other lock's only hangs
				p.Cut()
			}
			if err := <-failed; !errors.Is(err, lock.ErrDown) {
				t.Errorf("acquire: %v", err)
			}
			if left() != 1 {
				t.Fatal("the orphan has gone before the link was back: it shows nothing")
			}
			p.Cut() // the reply is lost
			p.Silence()
			eventually(t, "the orphan is gone", func() bool { return left() == 0 })
			if session.over.Err() != nil {
				t.Error("only the end of the session removed it")
			}
			release(t, acquire(t, l))
		})
	}
}

func recipeOf(l lock.Locker) recipe {
	if e, is := l.(*Ephemeral); is {
		return e.recipe
	}
	return l.(*Sequential).recipe
}

// A place that comes when its caller has given up is given back, while the session lives on.
func TestAPlaceThatComesTooLate(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p, c := proxied(t, host), raw(t, host, "")
	q, other := NewSequential(dial(t, p.Addr())), NewSequential(dial(t, host))
	release(t, acquire(t, q))
	holder := acquire(t, other)
	create := p.Set(wire.Trap{On: wire.ToServer, Match: is(opMulti), Do: wire.HoldReply})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() { _, err := q.Acquire(ctx, key, lock.Options{}); failed <- err }()
	<-create.Sprung()
	eventually(t, "a second node", func() bool { return len(nodes(t, c, q.recipe)) == 2 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("%v, want context.Canceled", err)
	}
	create.Release()
	eventually(t, "the holder alone", func() bool { return len(nodes(t, c, q.recipe)) == 1 })
	release(t, holder)
}
