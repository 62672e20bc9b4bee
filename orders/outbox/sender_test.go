package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/orders/outbox"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

func none(string) error { return nil }

func deadlocks(t *testing.T) (n int) {
	t.Helper()
	var name string
	if err := rows.QueryRow("SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'").Scan(&name, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestOrder: with two senders and ten writers of few SKUs, every event comes once, and those of each SKU in order.
func TestOrder(t *testing.T) {
	for name, s := range map[string]outbox.Sender{"small batches": {Batch: 7, Parallel: 2}, "default": {}} {
		t.Run(name, func(t *testing.T) {
			skus, before := fresh(t, 5), deadlocks(t)
			s.Sink = outbox.Stream(cache, skus[0], 1e6)
			start(t, 2, s)
			var writers sync.WaitGroup
			for range 10 {
				writers.Go(func() { move(t, 8, skus...) })
			}
			writers.Wait()
			awaitEmpty(t)
			r := newReceiver()
			r.read(t, skus[0])
			r.complete(t, skus...)
			if r.repeat > 0 {
				t.Errorf("%d events came again, though nothing failed", r.repeat)
			}
			if n := deadlocks(t); n != before {
				t.Errorf("%d deadlocks", n-before)
			}
		})
	}
}

// TestDatabaseIsKilled: while events are written and sent, the server is killed twice. No event that was sent is lost
// with it: another one with its number would come with another body.
func TestDatabaseIsKilled(t *testing.T) {
	skus := fresh(t, 5)
	var came atomic.Int64
	r := newReceiver()
	start(t, 2, outbox.Sender{Batch: 20, Sink: r.sink(func(string) error { came.Add(1); return nil })})
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() { move(t, 20, skus...) })
	}
	for range 2 {
		had := came.Load()
		await(t, "50 events", func() bool { return came.Load() >= had+50 })
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	writers.Wait()
	awaitEmpty(t)
	r.complete(t, skus...)
	t.Log(len(r.bodies), "events,", r.repeat, "repeats")
}

// TestCutOffSender: a sender loses its connection while it delivers. Another sends its events, and then the first goes
// on with late copies. Nobody who writes waits for a delivery.
func TestCutOffSender(t *testing.T) {
	skus := fresh(t, 3)
	move(t, 20, skus...)
	var holds atomic.Bool
	held, release := make(chan bool), make(chan bool)
	r := newReceiver()
	sink := r.sink(func(string) error {
		if holds.CompareAndSwap(false, true) {
			close(held)
			<-release
		}
		return nil
	})
	stop := start(t, 1, outbox.Sender{Sink: sink})
	<-held
	move(t, 1, skus...)
	var id int64
	const withLocks = "SELECT trx_mysql_thread_id FROM information_schema.innodb_trx WHERE trx_rows_locked > 0"
	await(t, "the transaction", func() bool { return rows.QueryRow(withLocks).Scan(&id) == nil }) // the table is cached
	if _, err := rows.Exec(fmt.Sprintf("KILL %d", id)); err != nil {
		t.Fatal(err)
	}
	start(t, 1, outbox.Sender{Sink: sink})
	awaitEmpty(t)
	close(release)
	stop()
	if r.complete(t, skus...); r.repeat == 0 {
		t.Error("no event came twice")
	}
}

// TestLateCommit: a transaction that has written an event is held open while later ones commit, with larger ids. They
// are sent, and then it is, too.
func TestLateCommit(t *testing.T) {
	skus := fresh(t, 2)
	tx, err := rows.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	body := fmt.Sprintf(`{"sku":%q,"number":1}`, skus[0])
	done, err := tx.Exec("INSERT INTO outbox (sku, number, body, due, refusals, reason)"+
		" VALUES (?, 1, ?, UTC_TIMESTAMP(6), 0, '')", skus[0], body)
	if err != nil {
		t.Fatal(err)
	}
	id, err := done.LastInsertId()
	if err != nil {
		t.Fatal(err)
	}
	move(t, 250, skus[1]) // more than a batch
	if n := count(t, "WHERE id < ?", id); n > 0 {
		t.Fatalf("%d events have smaller ids: nothing is tested", n)
	}
	r := newReceiver()
	start(t, 2, outbox.Sender{Sink: r.sink(none)})
	awaitEmpty(t)
	if r.complete(t, skus[1]); r.has(skus[0] + ".1") {
		t.Error("an event was sent before its commit")
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	awaitEmpty(t)
	if !r.has(skus[0] + ".1") {
		t.Error("an event was passed")
	}
}

// TestRefusal: a receiver refuses one event. After 20 times it is parked, the later events of its SKU wait for it, and
// all others come. A person sends it again, and skips it.
func TestRefusal(t *testing.T) {
	skus := fresh(t, 2)
	r, tries := newReceiver(), atomic.Int64{}
	reason := strings.Repeat("不要 🙅 \"\\\n", 50)
	bad := skus[0] + ".2"
	start(t, 2, outbox.Sender{Pace: time.Millisecond, Sink: r.sink(func(name string) error {
		if name == bad {
			tries.Add(1)
			return errors.New(reason)
		}
		return nil
	})})
	move(t, 4, skus[0])
	move(t, 250, skus[1])
	isParked := func() bool { return count(t, "WHERE due IS NULL") == 1 }
	await(t, "parked", isParked)
	await(t, "the others", func() bool { return count(t, "") == 3 })
	r.complete(t, skus[1])
	parked, err := store.List(t.Context())
	if err != nil || len(parked) != 1 || parked[0].Name() != bad || parked[0].Refusals != 20 || tries.Load() != 20 {
		t.Fatalf("after %d tries: %+v %v", tries.Load(), parked, err)
	}
	if got := parked[0].Reason; got != string([]rune(reason)[:255]) {
		t.Errorf("the reason is %q", got)
	}

	for event, want := range map[string]error{
		skus[0] + ".3": repo.ErrNotParked, skus[0] + ".1": repo.ErrNoEvent, "7": repo.ErrNoEvent, "": repo.ErrNoEvent,
		skus[0] + ".x": repo.ErrNoEvent,
	} {
		if err := store.Retry(t.Context(), event); !errors.Is(err, want) || !strings.Contains(err.Error(), event) {
			t.Errorf("retry %q: %v", event, err)
		}
		if err := store.Skip(t.Context(), event); !errors.Is(err, want) {
			t.Errorf("skip %q: %v", event, err)
		}
	}
	if err := store.Retry(t.Context(), bad); err != nil {
		t.Error(err)
	}
	await(t, "parked again", func() bool { return tries.Load() == 40 && isParked() })
	if r.has(skus[0]+".3") || count(t, "") != 3 {
		t.Error("a later event did not wait")
	}

	r.gaps = map[string]bool{bad: true}
	if err := store.Skip(t.Context(), bad); err != nil {
		t.Error(err)
	}
	awaitEmpty(t)
	r.complete(t, skus...)
	if tries.Load() != 40 || r.has(bad) {
		t.Error("it was sent, though it was skipped")
	}
}

// TestOutage: a receiver that is away parks nothing, and the outbox is as late as its oldest event. What waits for a
// person makes it no later.
func TestOutage(t *testing.T) {
	skus := fresh(t, 2)
	move(t, 3, skus...)
	for _, query := range []string{
		"UPDATE outbox SET due = NULL WHERE sku = ? AND number = 1",
		"UPDATE movements SET at = at - INTERVAL 2 DAY WHERE sku = ?",
	} {
		if _, err := rows.Exec(query, skus[0]); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rows.Exec("UPDATE movements SET at = at - INTERVAL 1 DAY WHERE sku = ?", skus[1]); err != nil {
		t.Fatal(err)
	}
	r, tries, back := newReceiver(), atomic.Int64{}, atomic.Bool{}
	start(t, 2, outbox.Sender{Pace: time.Millisecond, Sink: r.sink(func(string) error {
		if tries.Add(1); !back.Load() {
			return fmt.Errorf("%w: connection refused", outbox.ErrAway)
		}
		return nil
	})})
	await(t, "50 tries", func() bool { return tries.Load() > 50 })
	b, err := store.Backlog(t.Context())
	if err != nil || b.Parked != 1 || b.Waiting != 5 || b.Late < 24*time.Hour || b.Late > 47*time.Hour {
		t.Errorf("%+v %v", b, err)
	}
	if n := count(t, "WHERE refusals > 0"); n > 0 {
		t.Errorf("%d events were refused by nobody", n)
	}
	back.Store(true)
	if err := store.Retry(t.Context(), skus[0]+".1"); err != nil {
		t.Error(err)
	}
	awaitEmpty(t)
	r.complete(t, skus...)
	if b, err := store.Backlog(t.Context()); err != nil || b != (service.Backlog{}) {
		t.Errorf("empty: %+v %v", b, err)
	}
}

// TestStop: a sender that is stopped finishes the deliveries under way, records them, and begins no other.
func TestStop(t *testing.T) {
	skus := fresh(t, 1)
	move(t, 2, skus[0])
	r := newReceiver()
	ctx, cancel := context.WithCancel(t.Context())
	s := outbox.Sender{Queue: store, Sink: func(ctx context.Context, name string, body []byte) error {
		cancel()
		r.get(name, body)
		return ctx.Err()
	}}
	s.Run(ctx)
	if r.has(skus[0]+".2") || count(t, "WHERE number = 1") != 0 || count(t, "") != 1 {
		t.Errorf("%d events came, %d are left", len(r.bodies), count(t, ""))
	}
	start(t, 1, outbox.Sender{Sink: r.sink(none)})
	awaitEmpty(t)
	if r.complete(t, skus...); r.repeat > 0 {
		t.Error("an event came again")
	}
}
