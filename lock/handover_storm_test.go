package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A witness watches the holders of all processes.
type witness struct {
	t       *testing.T
	seed    uint64
	mu      sync.Mutex
	holder  *Lease
	last    Fence
	batch   Fence // the fence of the server's lease
	holders int   // of this lease so far
	came    [2]int
}

// hold notes that a caller, the n-th to come to this process, holds a lease.
func (w *witness) hold(l *Lease, process, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.Err() != nil {
		return // lost on its way
	}
	if w.holder != nil && w.holder.Err() == nil {
		w.t.Errorf("seed %d: two holders: %d and %d", w.seed, w.holder.Fence(), l.Fence())
	}
	if l.Fence() <= w.last {
		w.t.Errorf("seed %d: fence %d after %d", w.seed, l.Fence(), w.last)
	}
	batch := l.Fence() / 8
	if batch != w.batch {
		w.batch, w.holders = batch, 0
	}
	w.holders++
	if w.holders > 3 {
		w.t.Errorf("seed %d: %d holders of one lease", w.seed, w.holders)
	}
	if n < w.came[process] {
		w.t.Errorf("seed %d: process %d served %d after %d", w.seed, process, n, w.came[process])
	}
	w.holder, w.last, w.came[process] = l, l.Fence(), n
}

func (w *witness) release(l *Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == l {
		w.holder = nil
	}
}

// Callers of two processes come, wait, try once, give up, work, hang, stop, abandon and release, while leases are lost.
// At no time are there two holders, the fences grow, a lease has three holders at most, each process serves in the
// order of arrival, and in the end nothing is left here or at the server.
func TestHandOverInAStorm(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 100
	}
	served := 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { served += storm(t, seed) })
		if t.Failed() {
			return
		}
	}
	if served < int(seeds)*15 {
		t.Errorf("%d were served by %d storms: this shows little", served, seeds)
	}
}

func storm(t *testing.T, seed uint64) (served int) {
	draw := rand.New(rand.NewPCG(seed, 2))
	chance := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex // guards chance and served
	server := &memory{trip: time.Millisecond, lingers: 20 * time.Millisecond, fails: func(int) error {
		mu.Lock()
		defer mu.Unlock()
		if chance.IntN(20) > 0 {
			return nil
		}
		return fmt.Errorf("acquire: %w: storm", ErrDown)
	}}
	w := &witness{t: t, seed: seed}
	var processes [2]Locker
	for i := range processes {
		processes[i] = HandOver(server, Bound{Holders: 3, Time: 50 * time.Millisecond})
	}
	var all sync.WaitGroup
	caller := func(process, n int) {
		wait := time.Duration(1+draw.IntN(200)) * time.Millisecond
		work := time.Duration(draw.IntN(8)) * time.Millisecond
		end, once := draw.IntN(10), draw.IntN(10) == 0
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), wait)
			defer cancel()
			l, err := processes[process].Acquire(ctx, "k", Options{Owner: fmt.Sprint(n), TryOnce: once})
			if err != nil {
				return
			}
			w.hold(l, process, n)
			switch end {
			case 0:
				server.lose("k", ErrExpired)
			case 1:
				go l.stopRenewing()
			case 2:
				work += 60 * time.Millisecond // hangs, lost or not
			}
			time.Sleep(work)
			w.release(l)
			if end == 3 {
				l.Abandon()
				return
			}
			if err := l.Release(); err != nil && !errors.Is(err, ErrLost) {
				t.Errorf("seed %d: release: %v", seed, err)
			}
			mu.Lock()
			served++
			mu.Unlock()
		})
	}
	for n := range 60 {
		time.Sleep(time.Duration(draw.IntN(6000)) * time.Microsecond)
		caller(draw.IntN(2), n)
		if draw.IntN(8) == 0 {
			server.lose("k", ErrExpired)
		}
	}
	all.Wait()
	time.Sleep(time.Minute)
	if s := server.queue.State("k"); s.Holder != nil || len(s.Waiters) > 0 {
		t.Errorf("seed %d: left at the server: %+v", seed, s)
	}
	for _, p := range processes {
		empty(t, p)
	}
	return served
}
