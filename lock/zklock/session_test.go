package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// A broken connection is no loss: the session is the same on the next, for the holder and for the waiter.
func TestLeaseOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := dial(t, p.Addr())
	q := NewSequential(s)
	lease := acquire(t, q)
	next := acquireLater(t, q)
	eventually(t, "one waits", func() bool { return s.watchCount() == 1 })
	for range 3 {
		before := s.currentLink()
		p.Cut()
		eventually(t, "connected again", func() bool { return s.State() == Connected && s.currentLink() != before })
	}
	if err := lease.Err(); err != nil {
		t.Errorf("lease: %v", err)
	}
	select {
	case <-next:
		t.Fatal("the waiter took the new connection for the end of the holder")
	default:
	}
	release(t, lease)
	release(t, <-next)
}

// The session ends at the server while the connection is up: holders are told, waiters queue up again in the next
// session.
func TestSessionClosedByTheServer(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	q, other := NewSequential(dial(t, p.Addr())), NewSequential(dial(t, host))
	holder := acquire(t, other)
	next := acquireLater(t, q)
	c := raw(t, host)
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	before := queue(t, c)
	slices.Sort(before)
	p.closeSession(t)
	eventually(t, "it waits with another node", func() bool {
		now := queue(t, c)
		slices.Sort(now)
		return len(now) == 2 && !slices.Equal(now, before)
	})
	release(t, holder)
	lease := <-next
	p.closeSession(t)
	lost(t, lease)
	if err := lease.Err(); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("lease: %v", err)
	}
	release(t, acquire(t, q))
}

// A server that takes the connection and does not answer the greeting is given up after 3 s.
func TestServerThatDoesNotGreet(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	p.Set(wire.Trap{On: wire.ToServer, Match: func([]byte) bool { return true }, Do: wire.Hold}) // the greeting
	s, err := Dial(Config{Hosts: []string{p.Addr()}})
	must(t, err)
	defer s.Close()
	connected(t, s)
}

// A server that goes silent is left for another in time to save the session.
func TestSilentServerIsLeft(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	proxies := map[string]*proxy{}
	var hosts []string
	for range 2 {
		p := newProxy(t, host)
		proxies[p.Addr()], hosts = p, append(hosts, p.Addr())
	}
	s := open(t, Config{Hosts: hosts, SessionTimeout: 6 * time.Second})
	q := NewSequential(s)
	lease := acquire(t, q)
	used := s.currentLink().RemoteAddr().String()
	proxies[used].silence()
	eventually(t, "connected elsewhere", func() bool {
		return s.State() == Connected && s.currentLink().RemoteAddr().String() != used
	})
	if err := lease.Err(); err != nil {
		t.Errorf("lease: %v", err)
	}
	release(t, lease)
}

// With the session timeout that is the default, too, a waiter has its answer within 3 s, long before the session is
// given up.
func TestWaiterIsToldSoonInALongSession(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}})
	q, c := NewSequential(s), raw(t, host)
	lease := acquire(t, q)
	waited := make(chan error, 1)
	go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	p.silence()
	select {
	case err := <-waited:
		if !errors.Is(err, lock.ErrDown) {
			t.Errorf("waiter: %v", err)
		}
	case <-lease.Done():
		t.Error("the session was lost before a waiter was told; it should be told after 2.5 s, and that is after 6.7 s")
	}
	p.Silence()
	eventually(t, "the waiter's node is gone", func() bool { return len(queue(t, c)) == 1 })
	release(t, lease)
}

// Close takes the leases with it, and the nodes.
func TestClose(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	c := raw(t, host)
	q := NewSequential(s)
	lease := acquire(t, q)
	waited := make(chan error, 1)
	go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	s.Close()
	s.Close()
	if err := lease.Err(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("lease: %v", err)
	}
	if err := <-waited; !errors.Is(err, lock.ErrDown) {
		t.Errorf("waiter: %v", err)
	}
	if left := queue(t, c); len(left) != 0 {
		t.Errorf("nodes left: %v", left)
	}
	if _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); !errors.Is(err, lock.ErrDown) {
		t.Errorf("acquire after close: %v", err)
	}
}

// Without a server there is an answer, and a server that returns is used.
func TestServerStoppedAndStarted(t *testing.T) {
	t.Parallel()
	type outage struct {
		name       string
		kind       kind
		down, back func(t *testing.T, s *stack.Server)
	}
	for _, row := range stacktest.Some(2, []outage{
		{
			"killed", sequentialKind(),
			func(t *testing.T, s *stack.Server) { must(t, s.Kill()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Restart(t.Context())) },
		},
		{
			"paused", sequentialKind(),
			func(t *testing.T, s *stack.Server) { must(t, s.Pause()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Resume()) },
		},
		{
			"killed, the herd", ephemeralKind(),
			func(t *testing.T, s *stack.Server) { must(t, s.Kill()) },
			func(t *testing.T, s *stack.Server) { must(t, s.Restart(t.Context())) },
		},
	}) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			server := stacktest.Server(t, stack.ZooKeeper)
			s := open(t, Config{Hosts: []string{server.URL}, SessionTimeout: 6 * time.Second})
			q := row.kind.open(s)
			holder := acquire(t, q)
			waited := make(chan error, 1)
			go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
			eventually(t, "one waits", func() bool { return s.watchCount() == 1 })
			row.down(t, server)
			select {
			case err := <-waited:
				if !errors.Is(err, lock.ErrDown) {
					t.Errorf("waiter: %v", err)
				}
			case <-time.After(patience):
				t.Fatal("a waiter was not told")
			}
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				if _, err := q.Acquire(ctx, keyOf(t), lock.Options{}); !errors.Is(err, lock.ErrDown) {
					t.Errorf("acquire: %v", err)
				}
				cancel()
			}
			if err := s.Check(t.Context()); !errors.Is(err, lock.ErrDown) {
				t.Errorf("check: %v", err)
			}
			lost(t, holder)
			if err := holder.Release(); !errors.Is(err, lock.ErrLost) {
				t.Errorf("release: %v", err)
			}
			row.back(t, server)
			release(t, acquire(t, q))
			eventually(t, "a check passes", func() bool { return s.Check(t.Context()) == nil })
			// A client of its own, begun now: a greeting that arrives while ZooKeeper starts may get no answer ever,
			// and the plain library then waits for ten times two thirds of the session timeout.
			c := raw(t, server.URL)
			eventually(t, "nothing left behind", func() bool {
				names, _, err := c.Children(row.kind.folder(t))
				return err == nil && len(names) == 0 || errors.Is(err, zk.ErrNoNode)
			})
		})
	}
}

// A connection that breaks is made again in a moment, and that is no outage: a probe that comes at that moment must not
// end all sales. A server that accepts no connection is down before the probe's own time is over.
func TestCheckOutlastsABrokenConnection(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	s := open(t, Config{Hosts: []string{p.Addr()}})
	must(t, s.Check(t.Context()))
	passed := 0
	for range 20 {
		p.Cut()
		if s.Check(t.Context()) == nil {
			passed++
		}
		connected(t, s)
	}
	if passed < 10 { // a busy computer may connect too late now and then
		t.Errorf("%d of 20 checks passed", passed)
	}
	p.Refuse(true)
	p.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.Check(ctx); !errors.Is(err, lock.ErrDown) || ctx.Err() != nil {
		t.Errorf("no connection: %v", err)
	}
}

// oversleep makes the last proof of life older than the session.
func (g *generation) oversleep() {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	g.alive = time.Now().Add(-g.timeout)
}

// slept is a recipe under which the process was paused for longer than its session, with the news that the key is ours
// in its socket: it reads that first, and the timer that watches over the session has not had its turn yet.
type slept struct{ recipe }

func (r slept) enter(ctx context.Context, a *attempt) (node, bool, error) {
	own, ours, err := r.recipe.enter(ctx, a)
	a.g.oversleep()
	return own, ours, err
}

// A waiter that overslept its session gets no lease from it, whatever it reads.
func TestAWaiterThatOversleptGetsNoLease(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	for _, r := range []recipe{sequential{}, ephemeral{}} {
		s := dial(t, host)
		g, err := s.usable(t.Context())
		must(t, err)
		a := &attempt{g: g, acquisition: &acquisition{s: s, recipe: slept{r}, key: keyOf(t), dir: folderOf(t)}}
		if err := a.enter(t.Context()); !errors.Is(err, errAgain) || a.lease != nil {
			t.Errorf("%T: lease %v, %v, want to queue up again", r, a.lease, err)
		}
		if cause := context.Cause(g.over); !errors.Is(cause, lock.ErrExpired) {
			t.Errorf("%T: the session goes on: %v", r, cause)
		}
		eventually(t, "nothing is left", func() bool { return len(queue(t, c)) == 0 })
	}
}

// A holder that overslept its session and releases at once is told of the loss, also if there is no connection to ask.
func TestAHolderThatOversleptHasLostItsLease(t *testing.T) {
	t.Parallel()
	for _, k := range kinds() {
		s := dial(t, Servers.ZooKeeper(t))
		lease := acquire(t, k.open(s))
		g, _ := s.now()
		g.oversleep()
		if err := lease.Release(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("%s: release: %v, want ErrLost because of ErrExpired", k.name, err)
		}
	}
}

// An answer to a heartbeat proves that the session lived when the heartbeat left, and not a moment longer: the answer
// may have been held up for as long as the session lasts.
func TestAHeartbeatCountsFromItsRequest(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	alive := func() time.Time {
		g, _ := s.now()
		s.mu.Lock()
		defer s.mu.Unlock()
		return g.alive
	}
	heartbeat := p.Set(wire.Trap{On: wire.ToServer, Do: wire.HoldReply, Match: func(frame []byte) bool {
		const opSync = 9
		return len(frame) >= opAt+4 && binary.BigEndian.Uint32(frame[opAt:]) == opSync
	}})
	<-heartbeat.Sprung()
	left, before := time.Now(), alive()
	p.Silence(wire.ToServer) // no other heartbeat arrives
	heartbeat.Release()
	eventually(t, "the answer is heard", func() bool { return alive() != before })
	if late := alive(); late.After(left) {
		t.Errorf("the session counts as alive %v after its heartbeat had left", late.Sub(left))
	}
	p.Silence()
}

// A node with our guid that another session has made is not ours: it goes when that session ends, and nobody here
// would be told.
func TestANodeOfAnotherSessionIsNotAdopted(t *testing.T) {
	t.Parallel()
	recipes := map[string]recipe{sequentialKind().name: sequential{}, ephemeralKind().name: ephemeral{}}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			host := Servers.ZooKeeper(t)
			s, other := dial(t, host), dial(t, host)
			for name, from := range map[string]*Session{"own": s, "another's": other} {
				g, err := s.usable(t.Context())
				must(t, err)
				maker, err := from.usable(t.Context())
				must(t, err)
				r, dir := recipes[k.name], rootOf(t)+"/"+k.name+name[:1]
				must(t, g.makeFolder(t.Context(), dir))
				record, err := maker.fenceRecord(t.Context())
				must(t, err)
				guid := uuid.NewString()
				made, err := r.create(maker, record, dir, guid, "")
				must(t, err)
				a := &attempt{g: g, acquisition: &acquisition{s: s, recipe: r, dir: dir, key: keyOf(t)}}
				found, err := a.recover(t.Context(), guid)
				if from == s && (err != nil || found.name != made.name) {
					t.Errorf("%s node: %+v, %v; want %s", name, found, err, made.name)
				}
				if from != s && !errors.Is(err, zk.ErrNoNode) {
					t.Errorf("%s node: %+v, %v; want ErrNoNode", name, found, err)
				}
				_ = r.delete(t.Context(), maker, made)
			}
		})
	}
}

// The dialer lets no other session replace that of a generation. If one did, locks of the old one would be in use.
func TestAGenerationEndsWithItsSession(t *testing.T) {
	for _, c := range []struct {
		linked int64
		want   error
	}{{linked: 7}, {linked: 8, want: lock.ErrExpired}} {
		g := newGeneration(&Session{log: slog.New(slog.DiscardHandler), changed: make(chan struct{})})
		g.id, g.link = 7, &link{session: c.linked}
		g.attached()
		if err := context.Cause(g.over); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("session 7 linked as %d: %v, want %v", c.linked, err, c.want)
		}
		g.end(nil)
		g.endWaits()
	}
}

// An event of a watch carries the state of the connection, too. Only events of the session change it.
func TestEventsOfWatchesAreNotOfTheSession(t *testing.T) {
	for _, row := range []struct {
		event  zk.Event
		linked bool
		lost   bool
	}{
		{zk.Event{Type: zk.EventSession, State: zk.StateConnected}, true, false},
		{zk.Event{Type: zk.EventNodeDeleted, State: zk.StateDisconnected}, true, false},
		{zk.Event{Type: zk.EventNotWatching, State: zk.StateExpired}, true, false},
		{zk.Event{Type: zk.EventSession, State: zk.StateDisconnected}, false, false},
		{zk.Event{Type: zk.EventSession, State: zk.StateConnecting}, false, false},
		{zk.Event{Type: zk.EventSession, State: zk.StateExpired}, false, true},
	} {
		g := unplugged(t, time.Minute)
		g.event(row.event)
		if lost := errors.Is(context.Cause(g.over), lock.ErrExpired); g.linked != row.linked || lost != row.lost {
			t.Errorf("%v: linked %t, lost %t", row.event, g.linked, lost)
		}
		g.end(nil)
		g.endWaits()
	}
}
