package zklock

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
)

// 100 contenders, each a process of its own to the server, and every release comes when all that are left wait again. The herd is
// 99+98+...+1 wake-ups; the queue needs 99.
func TestTheHerdIsCounted(t *testing.T) {
	host := servers.ZooKeeper(t)
	const n = 100
	sessions := make([]*Session, n)
	for i := range sessions {
		sessions[i] = open(t, Config{Hosts: []string{host}, SessionTimeout: 30 * time.Second})
	}
	for _, row := range []struct {
		kind kind
		want int64
	}{
		{kinds()[0], n - 1},
		{kinds()[1], n * (n - 1) / 2},
	} {
		t.Run(row.kind.name, func(t *testing.T) {
			type holding struct {
				session *Session
				lease   *lock.Lease
			}
			var wakeups atomic.Int64
			var all sync.WaitGroup
			defer all.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
			turns := make(chan holding)
			for _, s := range sessions {
				all.Go(func() {
					lease, err := row.kind.open(s).Acquire(ctx, keyOf(t), counted)
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case turns <- holding{s, lease}:
					case <-ctx.Done():
					}
				})
			}
			for left := n - 1; left >= 0; left-- {
				var h holding
				select {
				case h = <-turns:
				case <-time.After(time.Minute):
					t.Fatalf("nobody got the key, %d are left", left)
				}
				own := h.session.idNow()
				waitUntil(t, fmt.Sprintf("all %d wait", left), time.Minute, func() bool {
					watchers := watchers(t, host, row.kind.folder(t))
					delete(watchers, own) // it may mind its own node
					return len(watchers) == left
				})
				release(t, h.lease)
			}
			if got := wakeups.Load(); got != row.want {
				t.Errorf("%d wake-ups for %d contenders, want %d", got, n, row.want)
			}
		})
	}
}

// watchers are the sessions that watch a node in dir, as the server sees it.
func watchers(t testing.TB, host, dir string) map[string]bool {
	found, watched := map[string]bool{}, false
	for line := range strings.Lines(fourLetters(t, host, "wchp")) {
		line = strings.TrimRight(line, "\n")
		if session, is := strings.CutPrefix(line, "\t"); !is {
			watched = strings.HasPrefix(line, dir+"/")
		} else if watched {
			found[session] = true
		}
	}
	return found
}

// idNow is the session's id in the server's words.
func (s *Session) idNow() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("0x%x", s.current.id)
}

// The promise that Sequential's waiters and Ephemeral's are woken from their server, and not by the clock: a wait that ends by itself is no wake-up.
func TestAWaitThatEndsIsNoWakeUp(t *testing.T) {
	host := servers.ZooKeeper(t)
	for _, k := range kinds() {
		holder := acquire(t, k.open(dial(t, host)), 20*time.Second)
		var wakeups atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
		if _, err := k.open(dial(t, host)).Acquire(ctx, keyOf(t), counted); err == nil || wakeups.Load() != 0 {
			t.Errorf("%s: %v, %d wake-ups", k.name, err, wakeups.Load())
		}
		release(t, holder)
	}
}
