package zklock

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
)

// oversleep makes the last proof of life older than the session, as if the process had been paused for so long, and no
// timer had had its turn yet. It shortens the session, because a heartbeat under way would be a new proof.
func (g *generation) oversleep() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timeout = 0
}

// Who overslept its session, with the news that the key is ours in its socket, gets no lease from it, and queues up
// again. A holder that releases at once is told of the loss.
func TestAPausePastTheSession(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	for _, r := range recipes {
		var s *Session
		var tired atomic.Bool
		s = open(t, Config{
			Hosts: []string{host}, SessionTimeout: 30 * time.Second,
			Called: func(context.Context, string) func(error) {
				return func(error) {
					if tired.Swap(false) {
						s.current.Load().oversleep()
					}
				}
			},
		})
		tired.Store(true)
		before := s.current.Load()
		lease := acquire(t, on(s, r))
		if s.current.Load() == before {
			t.Errorf("%T: a lease from a session that was overslept", r)
		}
		s.current.Load().oversleep()
		if err := lease.Release(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("%T: release: %v, want ErrLost because of ErrExpired", r, err)
		}
		locktest.Eventually(t, "nothing is left", func() bool { return len(nodes(t, c, r)) == 0 })
	}
}

// A server that takes the connection and does not answer the greeting is given up after 3 s.
func TestServerThatDoesNotGreet(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	p.Set(wire.Trap{On: wire.ToServer, Match: func([]byte) bool { return true }, Do: wire.Hold}) // the greeting
	open(t, Config{Hosts: []string{p.Addr()}, ConnectTimeout: time.Second})
}

// An answer to a heartbeat proves that the session lived when the heartbeat left, and not a moment longer: the answer
// may have been held up for as long as the session lasts.
func TestAHeartbeatCountsFromItsRequest(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	g := dial(t, p.Addr()).current.Load()
	alive := func() time.Time { return g.now().alive }
	heartbeat := p.Set(wire.Trap{On: wire.ToServer, Do: wire.HoldReply, Match: is(opSync)})
	<-heartbeat.Sprung()
	left, before := time.Now(), alive()
	p.Silence(wire.ToServer) // no other heartbeat arrives
	heartbeat.Release()
	locktest.Eventually(t, "the answer is heard", func() bool { return alive() != before })
	if late := alive(); late.After(left) {
		t.Errorf("the session counts as alive %v after its heartbeat had left", late.Sub(left))
	}
	p.Silence()
}

// A server that accepts no connection is down, for a health probe; but not if the probe itself ends.
func TestCheckWithoutAConnection(t *testing.T) {
	t.Parallel()
	p := proxied(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	must(t, s.Check(t.Context()))
	p.Sever()
	locktest.Eventually(t, "down", func() bool { return errors.Is(s.Check(t.Context()), lock.ErrDown) })
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := s.Check(gone); !errors.Is(err, context.Canceled) || errors.Is(err, lock.ErrDown) {
		t.Errorf("nobody waits: %v", err)
	}
	p.Mend()
	locktest.Eventually(t, "up", func() bool { return s.Check(t.Context()) == nil })
}

// Each limit of a session holds from its moment on, and not before: a heartbeat after its interval, if none is under
// way, the suspension after patience, the end of the connection after a third of the session, and the loss after two
// thirds.
func TestLimitsOfASession(t *testing.T) {
	for _, timeout := range []time.Duration{2400 * time.Millisecond, 30 * time.Second} {
		interval := min(heartbeatInterval, timeout/20)
		for _, limit := range []time.Duration{interval, patience, timeout / 3, timeout * 2 / 3} {
			for _, silent := range []time.Duration{limit - 1, limit} {
				synctest.Test(t, func(t *testing.T) {
					g := connected(t, timeout)
					began := time.Now()
					g.route.failed.Store(9)
					g.confirmAlive(g.link, began)
					if g.route.failed.Load() != 0 {
						t.Error("an answer does not make the pauses between servers short again")
					}
					time.Sleep(silent)
					_, second := g.applyLimits(time.Now(), began, true)
					_, on := g.applyLimits(time.Now(), began, false)
					linked, lost := silent < timeout/3, silent >= timeout*2/3
					if open := g.dialed.SetDeadline(time.Time{}) == nil; open != (linked || lost) {
						t.Errorf("%v after %v: the connection is open: %t", timeout, silent, open)
					}
					suspended, ended := silent >= patience || lost, g.over.Err() != nil
					if second != nil || (on != nil) != (linked && silent >= interval) || (g.link != nil) != linked ||
						(g.outage.Err() != nil) != suspended || ended != lost {
						t.Errorf("%v after %v: beats %t and %t, linked %t, suspended %t, lost %t", timeout, silent,
							on != nil, second != nil, g.link != nil, g.outage.Err() != nil, ended)
					}
					g.confirmAlive(g.dialed, began) // an old answer changes nothing
					if (g.outage.Err() != nil) != suspended {
						t.Errorf("%v after %v: an old answer ends the suspension", timeout, silent)
					}
					g.confirmAlive(g.dialed, time.Now())
					if (g.outage.Err() != nil) != lost {
						t.Errorf("%v after %v: an answer does not end the suspension", timeout, silent)
					}
					g.lose(lock.ErrClosed)
				})
			}
		}
	}
}

// connected returns a generation with a session and no server.
func connected(t *testing.T, timeout time.Duration) *generation {
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	s := &Session{config: Config{Logger: slog.New(slog.DiscardHandler)}}
	s.changed.ch = make(chan struct{})
	g := newGeneration(s)
	g.conn = new(zk.Conn)
	g.dialed = &link{Conn: here, timeout: timeout, opened: time.Now()}
	g.event(zk.Event{Type: zk.EventSession, State: zk.StateHasSession})
	g.event(zk.Event{Type: zk.EventNodeDeleted, State: zk.StateDisconnected}) // not of the session
	return g
}

// There is no pause in the first round over all servers. Then the pauses double up to a second, and each is between
// half and all of that. A greeting does not change that. The end of the generation ends a pause.
func TestPausesBetweenServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, end := context.WithCancelCause(context.Background())
		r := &route{over: over}
		_ = r.Init([]string{"a:1", "b:1", "c:1"})
		for try, most := range []time.Duration{0, 0, 0, 100, 200, 400, 800, 1000, 1000} {
			most *= time.Millisecond
			r.Connected() // a greeting
			began := time.Now()
			server, _ := r.Next()
			err := r.pause()
			waited := time.Since(began)
			if server != r.servers[try%3] || waited < most/2 || waited > most || err != nil {
				t.Errorf("try %d of %s after %v, %v; want %v to %v", try, server, waited, err, most/2, most)
			}
		}
		end(lock.ErrClosed)
		began := time.Now()
		if err := r.pause(); !errors.Is(err, lock.ErrClosed) || time.Since(began) != 0 {
			t.Errorf("after the end: %v, in %v", err, time.Since(began))
		}
	})
}
