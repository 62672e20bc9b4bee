package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// This file has the moments in which a hand-over goes wrong most easily.

// A stop that comes after the hand-over (Do's AfterFunc runs in its own goroutine) is not the next holder's.
func TestHandOverOfAStopThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := HandOver(&memory{keep: renewed(0)}, Bound{Time: time.Hour})
		a := acquire(t, h, "a")
		l := newLine(t)
		l.come(t.Context(), h, "b", func(b *Lease) {
			a.stopRenewing()
			time.Sleep(time.Hour)
			if b.Err() != nil {
				t.Errorf("the next holder lost its lease: %v", b.Err())
			}
		})
		_ = a.Release()
		l.all.Wait()
	})
}

// Nobody but the holder frees a lease that was lost, because its work may have sent a write. The loss is told, and then
// the next one asks, at the moment of the loss: the call that tells it is the keeper's, for which a release would wait.
func TestHandOverLeavesALostLeaseToItsHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{keep: renewed(time.Minute)}
		h := HandOver(m, Bound{})
		began := time.Now()
		a := acquire(t, h, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		l := newLine(t)
		l.come(ctx, h, "b", second)
		a.atEnd(func() {
			if next := a.of.k.contender.Who; next != "a" {
				t.Errorf("%s was asked to go on before the holder was told", next)
			}
		})
		<-a.Done()
		synctest.Wait()
		if told := time.Since(began); told != time.Minute || !errors.Is(a.Err(), ErrExpired) || len(m.asked()) != 2 {
			t.Errorf("told %v after %v; asked by %v", a.Err(), told, m.asked())
		}
		l.all.Wait()
		if len(m.freed()) > 0 || !errors.Is(l.errs["b"], ErrHeld) {
			t.Errorf("freed, when the outcome of the work was unknown; the next one was told %v", l.errs["b"])
		}
		a.Abandon()
		if len(m.freed()) > 0 {
			t.Error("an abandoned lease is freed")
		}
		time.Sleep(time.Minute)
	})
}

// The next lease of a process is asked for when the last one has been given back: the process would wait for itself.
func TestHandOverAsksAfterTheRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{trip: time.Second}
		h := HandOver(m, Bound{Holders: 1})
		first := acquire(t, h, "first")
		l := newLine(t)
		l.come(t.Context(), h, "next", second)
		go func() { _ = first.Release() }()
		synctest.Wait() // the release is on its way
		if len(m.asked()) != 1 {
			t.Error("asked before the release")
		}
		l.all.Wait()
	})
}

// A holder that stops its renewal stops that of the process's lease.
func TestHandOverStopsRenewing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := acquire(t, HandOver(&memory{keep: renewed(0)}, Bound{}), "")
		time.Sleep(15 * time.Second)
		l.stopRenewing()
		<-l.Done()
		if want := 10*time.Second + Valid(ttl); !errors.Is(l.Err(), ErrExpired) || time.Since(began) != want ||
			l.Until() != time.Now() {
			t.Errorf("%v after %v, want it after %v", l.Err(), time.Since(began), want)
		}
		_ = l.Release()
	})
}

// A process that was stopped may find the end of the lease before the lease does: its time limit is seen all the same.
func TestHandOverOfALeaseThatEndedInAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{keep: renewed(0)}
		h := HandOver(m, Bound{Time: time.Hour})
		first := acquire(t, h, "first")
		first.of.b.lease.due.Stop() // nothing of the process runs
		time.Sleep(ttl)
		l := newLine(t)
		l.come(t.Context(), h, "next", func(*Lease) {})
		_ = first.Release()
		l.all.Wait()
		if len(m.asked()) != 2 {
			t.Errorf("%d leases, want a second one", len(m.asked()))
		}
	})
}

// A turn that comes in the moment in which its waiter gives up goes on: with the lease, if it may be handed on.
func TestHandOverOfATurnThatComesAsTheWaitEnds(t *testing.T) {
	for name, row := range map[string]struct {
		turn   turn
		lost   bool // the lease
		others int
		asked  int // for the others
	}{
		"a lease, for one behind it":        {others: 1, asked: 0},
		"a lease, for nobody":               {others: 0, asked: 0},
		"a lost lease, for one behind it":   {lost: true, others: 1, asked: 1},
		"an appointment, for one behind it": {turn: toContend, others: 1, asked: 1},
		"an appointment, for nobody":        {turn: toContend},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memory{}
				h := HandOver(m, Bound{Time: time.Hour}).(*handOver)
				h.queues.mu.Lock()
				k := h.queues.open("k") // somebody holds the key, and is about to pass its turn on
				h.queues.mu.Unlock()
				if row.turn == toHold {
					k.batch = &batch{lease: acquire(t, m, "before"), until: time.Now().Add(time.Hour), holders: 1}
				}
				asked := len(m.asked())
				ctx, giveUp := context.WithCancel(t.Context())
				l := newLine(t)
				l.come(ctx, h, "gives up", second)
				for range row.others {
					l.come(t.Context(), h, "other", second)
				}
				if row.lost {
					m.lose("k", ErrExpired)
				}
				comeTooLate(&h.queues, "k", giveUp, row.turn)
				l.all.Wait()
				if err := l.errs["gives up"]; !errors.Is(err, ErrHeld) || !errors.Is(err, context.Canceled) {
					t.Errorf("the waiter was told %v", err)
				}
				if len(l.served) != row.others || len(m.asked())-asked != row.asked {
					t.Errorf("served %v, asked %d times more, want %d", l.served, len(m.asked())-asked, row.asked)
				}
				empty(t, h)
				if got := m.queue.State("k"); got.Holder != nil {
					t.Errorf("left at the server: %+v", got.Holder)
				}
			})
		})
	}
}

// comeTooLate makes the turn of the first waiter come in the moment in which its wait has ended: the waiter is woken by
// the end of its ctx, and finds the turn when it wants to leave the queue.
func comeTooLate(q *keyQueues, key string, giveUp context.CancelFunc, t turn) {
	synctest.Wait() // the waiter stands in its select
	q.mu.Lock()
	giveUp()
	if k := q.keys[key]; t == toHold {
		k.pass(time.Now())
	} else {
		k.appoint(k.first)
	}
	q.mu.Unlock()
}
