package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// numbered returns the numbers 1 to n.
func numbered(n uint64) (list []uint64) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// A long delivery is recorded about every markEvery, and at its end unless nothing was delivered since.
func TestHowOftenADeliveryIsRecorded(t *testing.T) {
	for _, row := range []struct {
		name      string
		batch     int
		movements uint64
		takes     time.Duration // each
		marks     []uint64
		more      bool
	}{
		{"nothing", 10, 0, 0, nil, false},
		{"quick", 10, 6, 0, []uint64{6}, false},
		{"slow, and a rest", 10, 5, 100 * time.Millisecond, []uint64{3, 5}, false},
		{"slow, and no rest", 10, 6, 100 * time.Millisecond, []uint64{3, 6}, false},
		{"a whole batch", 6, 6, 0, []uint64{6}, true},
		{"more than a batch", 5, 6, 0, []uint64{5}, true},
		{"less than a batch", 7, 6, 0, []uint64{6}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledger{movements: map[service.SKU][]uint64{"a": numbered(row.movements)}}
				l.answer = func(context.Context, Event) error { time.Sleep(row.takes); return nil }
				var delivered int
				work, stop := l.term(t, func(c *Config) {
					c.Batch, c.Observer.Delivered = row.batch, func() { delivered++ }
				})
				defer stop()
				done := work.deliver(order.Delivered{SKU: "a"}, false)
				if !slices.Equal(l.marks, row.marks) || done.more != row.more ||
					done.failed != nil || done.fatal != nil {
					t.Errorf("recorded %v, want %v; %+v", l.marks, row.marks, done)
				}
				if delivered != len(l.sent) {
					t.Errorf("the observer saw %d of %d", delivered, len(l.sent))
				}
				if last := len(row.marks) - 1; last >= 0 && (done.Number != row.marks[last] || l.fence != 7) {
					t.Errorf("%d is recorded, with fence %d", done.Number, l.fence)
				}
			})
		})
	}
}

// An event that a person skips is recorded and not sent. What was archived ends the term.
func TestWhatIsNotSent(t *testing.T) {
	l := &ledger{movements: map[service.SKU][]uint64{"a": {1, 2, 3}}}
	work, stop := l.term(t, nil)
	defer stop()
	done := work.deliver(order.Delivered{SKU: "a", Number: 1}, true)
	if done.Number != 2 || !done.more || done.fatal != nil || l.delivered["a"] != 2 || len(l.sent) > 0 {
		t.Errorf("skipped: %+v, recorded %d, sent %v", done, l.delivered["a"], l.sent)
	}
	l.kind = order.Carried
	if done = work.deliver(order.Delivered{SKU: "a"}, false); !errors.Is(done.fatal, errCarried) || len(l.sent) > 0 {
		t.Errorf("archived: %+v, sent %v", done, l.sent)
	}
	l.kind = order.Sell
	close(work.closing)
	if done = work.deliver(order.Delivered{SKU: "a"}, false); done.Number != 0 || done.fatal != nil || len(l.sent) > 0 {
		t.Errorf("at the end of the term: %+v, sent %v", done, l.sent)
	}
}

// An unknown outcome of a record must not keep the lock of the relay, but a stale fence says that it is lost.
func TestWhatAFailedRecordMatches(t *testing.T) {
	for _, row := range []struct {
		err  error
		kept bool
	}{{fmt.Errorf("no reply: %w", service.ErrOutcomeUnknown), false}, {service.ErrStaleFence, true}} {
		l := &ledger{movements: map[service.SKU][]uint64{"a": {1}}, refusal: row.err}
		work, stop := l.term(t, nil)
		done := work.deliver(order.Delivered{SKU: "a"}, false)
		stop()
		if done.fatal == nil || errors.Is(done.fatal, row.err) != row.kept ||
			errors.Is(done.fatal, lock.ErrOutcomeUnknown) ||
			!strings.Contains(done.fatal.Error(), row.err.Error()) || done.Number != 0 {
			t.Errorf("%v: %+v", row.err, done)
		}
	}
}

// An event is parked at its last refusal, and one that the receiver could not take never.
func TestAnEventIsParkedAtItsLastRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		failures := 0
		l := &ledger{letters: map[service.SKU]order.DeadLetter{}}
		work, stop := l.term(t, func(c *Config) {
			c.Attempts, c.Observer.Failed = 2, func() { failures++ }
			c.Log = slog.New(slog.NewTextHandler(&said, nil))
		})
		defer stop()
		if err := work.readLetters(t.Context()); err != nil {
			t.Fatal(err)
		}
		refused := errors.New("no such field")
		for i, row := range []struct {
			failed       error
			away, parked bool
		}{
			{unavailable(errors.New("gone")), true, false},
			{refused, false, false},
			{unavailable(errors.New("gone")), true, false},
			{refused, false, true},
		} {
			work.busy["a"] = true
			delivered := result{Delivered: order.Delivered{SKU: "a", Number: 4}, failed: row.failed}
			if err := work.record(delivered); err != nil {
				t.Fatal(err)
			}
			letter, parked := work.letters["a"]
			if parked != row.parked || work.away != row.away || work.busy["a"] || failures != i+1 {
				t.Errorf("failure %d: parked %t, away %t, %d failures", i+1, parked, work.away, failures)
			}
			if parked && (letter.Number != 5 || letter.Attempts != 4 || letter.Reason != "no such field" ||
				l.letters["a"] != letter || work.stuck["a"] != nil) {
				t.Errorf("letter %+v, stored %+v", letter, l.letters["a"])
			}
		}
		if n := strings.Count(said.String(), "event not delivered"); n != 1 {
			t.Errorf("%d warnings, want one for each event:\n%s", n, &said)
		}
		work.cancel() // from here on it is not the receiver that fails
		err := work.record(result{Delivered: order.Delivered{SKU: "b"}, failed: unavailable(context.Canceled)})
		if err != nil || failures != 4 || work.away || work.stuck["b"] != nil {
			t.Errorf("the end of the term: %v, %d failures, away %t", err, failures, work.away)
		}
	})
}

// An event that cannot be parked ends the term, and is no letter.
func TestAnEventThatCannotBeParked(t *testing.T) {
	down := fmt.Errorf("no reply: %w", service.ErrOutcomeUnknown)
	l := &ledger{letters: map[service.SKU]order.DeadLetter{}, unparked: down}
	work, stop := l.term(t, func(c *Config) { c.Attempts = 1 })
	defer stop()
	err := work.record(result{Delivered: order.Delivered{SKU: "a", Number: 4}, failed: errors.New("no such field")})
	if err == nil || !strings.Contains(err.Error(), "no reply") || errors.Is(err, service.ErrOutcomeUnknown) {
		t.Errorf("%v, want the error of the store, hidden", err)
	}
	if _, parked := work.letters["a"]; parked || work.stuck["a"] == nil {
		t.Errorf("parked %t, stuck %v", parked, work.stuck["a"])
	}
}

// A letter goes with its event, and not before. That it is gone already is no fault.
func TestALetterGoesWithItsEvent(t *testing.T) {
	for _, row := range []struct {
		name      string
		delivered uint64
		err       error // of the store
		gone      bool
	}{
		{"the one before", 2, nil, false},
		{"its own", 3, nil, true},
		{"a later one", 4, nil, true},
		{"removed by another relay", 3, order.ErrNoDeadLetter, true},
		{"the store is down", 3, fmt.Errorf("no reply: %w", service.ErrOutcomeUnknown), false},
	} {
		l := &ledger{letters: map[service.SKU]order.DeadLetter{"a": {SKU: "a", Number: 3}}, undecided: row.err}
		work, stop := l.term(t, nil)
		if err := work.readLetters(t.Context()); err != nil {
			t.Fatal(err)
		}
		work.away, work.stuck["a"] = true, &stuckEvent{number: 3}
		err := work.record(result{Delivered: order.Delivered{SKU: "a", Number: row.delivered}})
		stop()
		failed := row.err != nil && !row.gone
		if failed != (err != nil) || errors.Is(err, service.ErrOutcomeUnknown) {
			t.Errorf("%s: error %v", row.name, err)
		}
		if _, there := work.letters["a"]; there == row.gone {
			t.Errorf("%s: the letter is known: %t", row.name, there)
		}
		if _, there := l.letters["a"]; there == (row.gone && row.err == nil) {
			t.Errorf("%s: the letter is stored: %t", row.name, there)
		}
		if work.away || work.stuck["a"] != nil {
			t.Errorf("%s: after a delivery the receiver is away: %t, %v", row.name, work.away, work.stuck)
		}
	}
}

// All pages of letters are read, and once in a term they are doubtful.
func TestAllLettersAreRead(t *testing.T) {
	const many = 2*pageSize + 1
	l := &ledger{letters: map[service.SKU]order.DeadLetter{}}
	for i := range many {
		sku := service.SKU(fmt.Sprint("sku-", i))
		l.letters[sku] = order.DeadLetter{SKU: sku, Number: 1}
	}
	work, stop := l.term(t, nil)
	defer stop()
	for range 2 {
		if err := work.readLetters(t.Context()); err != nil || len(work.letters) != many {
			t.Errorf("%d letters are read, want %d: %v", len(work.letters), many, err)
		}
		if first := l.reads == 3; first != (len(work.doubtful) == many) {
			t.Errorf("%d letters are doubtful after %d reads", len(work.doubtful), l.reads)
		}
		clear(work.doubtful)
	}
}

// The SKUs are read page by page, from the first again after the last. There is a pause only when nothing began since
// the first; letters and lag are read no more often than they should be.
func TestThePagesOfTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{
			movements: map[service.SKU][]uint64{},
			letters:   map[service.SKU]order.DeadLetter{"old": {SKU: "old", Number: 1}},
		}
		lags := 0
		work, stop := l.term(t, func(c *Config) { c.Parallel, c.Observer.Lag = 1, func(Lag) { lags++ } })
		defer stop()
		add := func(from, to int) {
			for i := from; i < to; i++ {
				l.movements[service.SKU(fmt.Sprintf("sku-%04d", i))] = []uint64{1}
			}
		}
		poll := func(pause time.Duration, after service.SKU) {
			t.Helper()
			got, err := work.poll()
			if err != nil || got != pause || work.after != after {
				t.Errorf("pause %v, want %v; the next page is after %q, want %q; %v",
					got, pause, work.after, after, err)
			}
			for len(work.busy) > 0 {
				if err := work.record(<-work.results); err != nil {
					t.Error(err)
				}
			}
			if synctest.Wait(); work.measuring && len(work.measured) > 0 {
				<-work.measured
				work.measuring = false
			}
			work.ready = nil
		}
		work.stuck["gone"] = &stuckEvent{number: 9}
		add(0, pageSize)
		poll(0, "sku-0255")
		if len(work.doubtful) != 1 || len(l.letters) != 1 {
			t.Errorf("before the last page %v are doubtful, and %v stored", work.doubtful, l.letters)
		}
		work.stuck["sku-0256"] = &stuckEvent{number: 2}
		poll(work.c.Poll, "") // the second page is empty, and nothing began
		if len(work.doubtful) != 0 || len(l.letters) != 0 {
			t.Errorf("after the last page %v are doubtful, and %v stored", work.doubtful, l.letters)
		}
		if len(work.stuck) != 2 {
			t.Errorf("%d are stuck, want 2: only an empty outbox shows that nothing is", len(work.stuck))
		}
		add(pageSize, pageSize+1)
		l.delivered["sku-0000"] = 1
		poll(0, "sku-0256")
		poll(work.c.Poll, "")
		l.delivered["sku-0001"] = 1
		poll(0, "") // one was begun
		if l.delivered["sku-0002"] != 1 {
			t.Errorf("delivered %v", l.delivered)
		}
		for sku := range l.movements {
			l.delivered[sku] = 1
		}
		poll(0, "") // one was begun in the last poll
		poll(work.c.Poll, "")
		if len(work.stuck) != 0 {
			t.Errorf("stuck after everything was delivered: %v", work.stuck)
		}
		if l.reads != 1 || lags != 1 {
			t.Errorf("in no time the letters were read %d times, and the lag measured %d times", l.reads, lags)
		}
		time.Sleep(lettersEvery + 1)
		poll(work.c.Poll, "")
		if l.reads != 2 || lags != 1 {
			t.Errorf("after a second: letters %d, lag %d", l.reads, lags)
		}
		time.Sleep(lagEvery)
		poll(work.c.Poll, "")
		if l.reads != 3 || lags != 2 {
			t.Errorf("after six seconds: letters %d, lag %d", l.reads, lags)
		}
	})
}

// While the receiver is away, one worker begins for each pace. A SKU that is busy, stuck, or waits for a person does
// not begin.
func TestWhoBegins(t *testing.T) {
	for _, row := range []struct {
		name        string
		away, paced bool
		letter      order.DeadLetter
		busy        bool
		tooSoon     bool
		begun       int
		sent        int
	}{
		{name: "all", begun: 2, sent: 2},
		{name: "away", away: true},
		{name: "away, at the pace", away: true, paced: true, begun: 1, sent: 1},
		{name: "the first is busy", busy: true, begun: 1, sent: 1},
		{name: "the first is stuck", tooSoon: true, begun: 1, sent: 1},
		{name: "the first waits for a person", letter: order.DeadLetter{Number: 1}, begun: 1, sent: 1},
		{name: "a letter of another event", letter: order.DeadLetter{Number: 2}, begun: 2, sent: 2},
		{name: "to be sent again", letter: order.DeadLetter{Number: 1, Decision: order.Resend}, begun: 2, sent: 2},
		{name: "to be skipped", letter: order.DeadLetter{Number: 1, Decision: order.Skip}, begun: 2, sent: 1},
	} {
		l := &ledger{movements: map[service.SKU][]uint64{"a": {1}, "b": {1}}}
		work, stop := l.term(t, nil)
		work.away, work.paced = row.away, row.paced
		work.ready = []order.Delivered{{SKU: "a"}, {SKU: "b"}}
		work.letters = map[service.SKU]order.DeadLetter{}
		if row.letter.Number > 0 {
			work.letters["a"] = row.letter
		}
		if row.tooSoon {
			work.stuck["a"] = &stuckEvent{number: 1, next: time.Now().Add(time.Hour)}
		}
		if row.busy {
			work.busy["a"] = true
		}
		work.begin()
		begun := work.begun
		for range begun {
			done := <-work.results
			delete(work.busy, done.SKU)
		}
		stop()
		if begun != row.begun || len(l.sent) != row.sent || work.paced {
			t.Errorf("%s: %d began, %d were sent, paced %t", row.name, begun, len(l.sent), work.paced)
		}
	}
}

// What is stuck is one event. When another relay has delivered it, its attempts are forgotten.
func TestWhatIsStuckIsOneEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stuckEvents{}
		at := order.Delivered{SKU: "a", Number: 4}
		if s.tooSoon(at) {
			t.Error("too soon for an event that never failed")
		}
		first := s.of(at)
		first.next = time.Now().Add(time.Second)
		if s.of(at) != first || first.number != 5 || !s.tooSoon(at) {
			t.Errorf("%+v, too soon %t", first, s.tooSoon(at))
		}
		time.Sleep(time.Second)
		if s.tooSoon(at) {
			t.Error("too soon at the time of the next attempt")
		}
		first.next = time.Now().Add(time.Hour)
		at.Number++
		if s.tooSoon(at) || len(s) != 0 {
			t.Errorf("the next event: too soon, or %v", s)
		}
		s["a"] = first
		if s.of(at) == first || s.of(at).number != 6 {
			t.Errorf("the next event: %+v", s.of(at))
		}
	})
}

// A reason is cut to its limit, and never within a character.
func TestAReasonIsCut(t *testing.T) {
	full := strings.Repeat("x", order.MaxDeadReason)
	for _, row := range []struct{ reason, want string }{
		{"short", "short"},
		{full[1:], full[1:]},
		{full, full},
		{full + "y", full},
		{full[1:] + "é", full[1:]},
		{full[2:] + "é", full[2:] + "é"},
	} {
		if got := cut(row.reason); got != row.want {
			t.Errorf("%d bytes: %d, ending with %q", len(row.reason), len(got), got[len(got)-4:])
		}
	}
}
