package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// A term is the time for which this relay holds the lock. One goroutine runs loop, which decides what to deliver. The
// workers, one goroutine for each SKU, deliver.
type term struct {
	*Relay
	fence   uint64
	work    context.Context // ends when the lock is lost, or at the end of the term
	cancel  context.CancelFunc
	stop    <-chan struct{} // is closed when no delivery may begin
	closing chan struct{}   // is closed by loop: the workers stop between two events

	results chan result
	busy    map[service.SKU]bool
	ready   []order.Delivered // read from the ledger, without a worker yet
	after   service.SKU       // the last SKU that was read; "": the next is the first
	begun   int               // workers started since the first SKU was read
	away    bool              // the last result was that the receiver is not available
	paced   bool              // one worker may begin although the receiver is not available

	letters map[service.SKU]order.DeadLetter
	// doubtful has the letters that were parked before this term, without those whose event was found undelivered. A
	// letter that is still here after all SKUs were read is settled: its event was delivered or skipped, and a relay
	// crashed before it removed the letter.
	doubtful  map[service.SKU]order.DeadLetter
	lettersAt time.Time // read
	lagAt     time.Time // measured
	measured  chan error
	measuring bool
}

type result struct {
	order.Delivered      // and recorded
	more            bool // more may be ready at once
	failed          error
	fatal           error // error of the store, which ends the term
}

func newTerm(r *Relay, work context.Context, stop <-chan struct{}, fence uint64) *term {
	t := &term{
		Relay: r, fence: fence, stop: stop, closing: make(chan struct{}),
		results: make(chan result, r.c.Parallel), busy: make(map[service.SKU]bool), measured: make(chan error, 1),
	}
	t.work, t.cancel = context.WithCancel(work)
	return t
}

// loop delivers until the term ends, the relay is stopped, the lock is lost, or the store fails. At a planned end the
// workers may finish within Grace; a lost lock ends the workers at once. No worker runs when loop returns.
func (t *term) loop() (err error) {
	planned := time.NewTimer(t.c.Term)
	defer planned.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	defer func() { err = errors.Join(err, t.finish(err)) }()
	for {
		select { // a stop has priority over other work
		case <-t.stop:
			return nil
		case <-t.work.Done():
			return context.Cause(t.work)
		default:
		}
		t.begin()
		idle, pace := look.C, (<-chan time.Time)(nil)
		if len(t.ready) > 0 {
			idle = nil // all workers are busy, or may not begin
			if len(t.busy) < t.c.Parallel {
				pace = time.After(awayPace)
			}
		}
		select {
		case <-pace:
			t.paced = true
		case <-t.stop:
		case <-t.work.Done():
		case <-planned.C:
			return nil
		case done := <-t.results:
			if err := t.record(done); err != nil {
				return err
			}
			if done.more {
				look.Reset(0)
			}
		case err := <-t.measured:
			t.measuring = false
			if err != nil {
				return err
			}
		case <-idle:
			pause, err := t.poll()
			if err != nil {
				return err
			}
			look.Reset(pause)
		}
	}
}

// finish waits for the workers and records their results. If failed is not nil, it first cancels the workers.
func (t *term) finish(failed error) (err error) {
	defer t.cancel()
	close(t.closing)
	if failed != nil {
		t.cancel()
	}
	grace := time.AfterFunc(t.c.Grace, t.cancel)
	defer grace.Stop()
	for len(t.busy) > 0 {
		if e := t.record(<-t.results); err == nil {
			err = e
		}
	}
	if t.measuring {
		t.cancel()
		<-t.measured
	}
	return err
}

// poll reads the next page of SKUs, and the letters and the lag when they are due. It returns the pause until the next
// call.
func (t *term) poll() (time.Duration, error) {
	ctx, cancel := context.WithTimeout(t.work, storeDeadline)
	defer cancel()
	if time.Since(t.lettersAt) > lettersEvery {
		if err := t.readLetters(ctx); err != nil {
			return 0, err
		}
	}
	if !t.measuring && time.Since(t.lagAt) > lagEvery {
		t.lagAt, t.measuring = time.Now(), true
		parked := len(t.letters)
		go func() { t.measured <- t.measure(parked) }() // finish waits for it
	}
	page, err := t.c.Outbox.Behind(ctx, t.after, pageSize)
	if err != nil {
		return 0, fmt.Errorf("read the outbox: %w", err)
	}
	t.ready = page
	for _, d := range page {
		if t.doubtful[d.SKU].Number == d.Number+1 {
			delete(t.doubtful, d.SKU)
		}
	}
	if len(page) == pageSize {
		t.after = page[len(page)-1].SKU
		return 0, nil
	}
	if len(page) == 0 && t.after == "" {
		clear(t.stuck)
	}
	t.after = ""
	for _, letter := range t.doubtful {
		if err := t.settle(letter); err != nil {
			return 0, err
		}
	}
	clear(t.doubtful)
	before := t.begun
	t.begun = 0
	t.begin()
	if before+t.begun == 0 {
		return t.c.Poll, nil
	}
	return 0, nil
}

// begin assigns waiting SKUs to idle workers.
func (t *term) begin() {
	for len(t.ready) > 0 && len(t.busy) < t.c.Parallel && (!t.away || t.paced) {
		d := t.ready[0]
		t.ready = t.ready[1:]
		if t.busy[d.SKU] || t.stuck.tooSoon(d) {
			continue
		}
		skip := false
		if letter, parked := t.letters[d.SKU]; parked && letter.Number == d.Number+1 {
			if letter.Decision == order.Undecided {
				continue
			}
			skip = letter.Decision == order.Skip
		}
		t.busy[d.SKU], t.paced = true, false
		t.begun++
		go func() { t.results <- t.deliver(d, skip) }() // record removes it from busy; finish waits for all
	}
}

// deliver delivers the next events of a SKU in order until one fails, and records the last delivered number. If skip is
// set, deliver skips the next event.
func (t *term) deliver(d order.Delivered, skip bool) (done result) {
	done = result{Delivered: d}
	if skip {
		d.Number++
		done.more, done.fatal = true, t.mark(&done, d)
		return done
	}
	movements, err := t.movements(d)
	if err != nil {
		done.fatal = fmt.Errorf("read movements: %w", err)
		return done
	}
	done.more = len(movements) == t.c.Batch
	marked := time.Now()
	for _, m := range movements {
		if t.leaving() {
			break
		}
		if m.Kind == order.Carried {
			done.fatal = errCarried
			return done
		}
		if m.Number != d.Number+1 && !t.repaired(m) {
			done.failed = fmt.Errorf("the ledger has a gap: after movement %d comes %d", d.Number, m.Number)
			break
		}
		if done.failed = t.send(NewEvent(m)); done.failed != nil {
			break
		}
		t.c.Observer.Delivered()
		d.Number = m.Number
		if time.Since(marked) > markEvery {
			if done.fatal = t.mark(&done, d); done.fatal != nil {
				return done
			}
			marked = time.Now()
		}
	}
	if d.Number > done.Number {
		done.fatal = t.mark(&done, d)
	}
	return done
}

// send makes one attempt to deliver an event.
func (t *term) send(e Event) error {
	ctx, ended := t.c.Observer.Deliver(t.work, e)
	err := t.c.Sink.Deliver(ctx, e)
	ended(err)
	return err
}

// errCarried: the movements after the last delivered number were archived after this relay had read the number. Another
// relay has the lock and has delivered these movements, or a person decided that they need not be delivered.
var errCarried = errors.New("the movements to be delivered were archived")

func (t *term) movements(d order.Delivered) ([]order.Movement, error) {
	ctx, cancel := context.WithTimeout(t.work, storeDeadline)
	defer cancel()
	return t.c.Book.Movements(ctx, d.SKU, d.Number, t.c.Batch)
}

// repaired reports whether the books were repaired at m or later. Then a gap before m was counted by that repair, and
// the events go on.
func (t *term) repaired(m order.Movement) bool {
	for later, err := range order.MovementsAfter(m.Number-1, t.c.Batch, func(after uint64) ([]order.Movement, error) {
		return t.movements(order.Delivered{SKU: m.SKU, Number: after})
	}) {
		if err != nil {
			return false
		}
		if later.Repairs() {
			return true
		}
	}
	return false
}

// leaving reports whether the term is ending, so that no further event may be sent.
func (t *term) leaving() bool {
	select {
	case <-t.closing:
		return true
	case <-t.work.Done():
		return true
	default:
		return false
	}
}

// mark records that the movements up to d were delivered.
func (t *term) mark(done *result, d order.Delivered) error {
	ctx, cancel := context.WithTimeout(t.work, storeDeadline)
	defer cancel()
	if err := t.c.Outbox.Delivered(ctx, d, t.fence); err != nil {
		// An unknown outcome is safe here: the recorded number never decreases, and at worst events are delivered
		// again. So the error must not match ErrOutcomeUnknown, after which the lock would not be released.
		return fmt.Errorf("record what was delivered: %w", hide(err))
	}
	done.Number = d.Number
	return nil
}

func (t *term) record(done result) error {
	delete(t.busy, done.SKU)
	switch {
	case done.fatal != nil:
		return done.fatal
	case done.failed == nil:
		t.away = false
		delete(t.stuck, done.SKU)
	case t.work.Err() != nil:
		return nil // the delivery failed because the term ended, not because of the receiver
	default:
		t.c.Observer.Failed()
		t.away = errors.Is(done.failed, ErrUnavailable)
		if err := t.fail(done); err != nil {
			return err
		}
	}
	if letter, parked := t.letters[done.SKU]; parked && letter.Number <= done.Number {
		return t.settle(letter)
	}
	return nil
}

// fail counts a failed attempt, and parks the event after the last one.
func (t *term) fail(done result) error {
	h := t.stuck.of(done.Delivered)
	h.fail(done.failed, t.c)
	log := t.c.Log.With("sku", done.SKU, "number", h.number, "attempts", h.attempts, "err", done.failed)
	if h.refusals < t.c.Attempts {
		if h.attempts == 1 {
			log.Warn("event not delivered")
		}
		return nil
	}
	letter := order.DeadLetter{
		SKU: done.SKU, Number: h.number, Attempts: h.attempts, Reason: cut(done.failed.Error()),
	}
	ctx, cancel := context.WithTimeout(t.work, storeDeadline)
	defer cancel()
	if err := t.c.Dead.Park(ctx, letter); err != nil {
		return fmt.Errorf("park an event: %w", hide(err))
	}
	log.Error("event parked: a person decides with stock relay retry, or skip")
	t.letters[done.SKU] = letter
	delete(t.stuck, done.SKU)
	return nil
}

// settle removes the letter of an event that was delivered or skipped.
func (t *term) settle(letter order.DeadLetter) error {
	ctx, cancel := context.WithTimeout(t.work, storeDeadline)
	defer cancel()
	err := t.c.Dead.Decide(ctx, letter.SKU, letter.Number, order.Settled)
	if err != nil && !errors.Is(err, order.ErrNoDeadLetter) {
		return fmt.Errorf("settle a dead letter: %w", hide(err))
	}
	delete(t.letters, letter.SKU)
	return nil
}

func (t *term) readLetters(ctx context.Context) error {
	letters := make(map[service.SKU]order.DeadLetter)
	for after := service.SKU(""); ; {
		page, err := t.c.Dead.Parked(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("read the dead letters: %w", err)
		}
		for _, letter := range page {
			letters[letter.SKU] = letter
		}
		if len(page) < pageSize {
			break
		}
		after = page[len(page)-1].SKU
	}
	if t.letters == nil {
		t.doubtful = maps.Clone(letters)
	}
	t.letters, t.lettersAt = letters, time.Now()
	return nil
}

func (t *term) measure(parked int) error {
	lag := Lag{Parked: parked}
	oldest := time.Time{}
	ctx, cancel := context.WithTimeout(t.work, 2*storeDeadline)
	defer cancel()
	after := service.SKU("")
	for seen := 0; seen < lagSKUs; {
		page, err := t.c.Outbox.Behind(ctx, after, pageSize)
		if err != nil {
			return fmt.Errorf("measure the outbox: %w", err)
		}
		for _, d := range page {
			level, err := t.c.Book.Level(ctx, d.SKU)
			if err != nil {
				return fmt.Errorf("measure the outbox: %w", err)
			}
			first, err := t.c.Book.Movements(ctx, d.SKU, d.Number, 1)
			if err != nil {
				return fmt.Errorf("measure the outbox: %w", err)
			}
			lag.Undelivered += max(level.Number, d.Number) - d.Number
			if len(first) > 0 && (oldest.IsZero() || first[0].At.Before(oldest)) {
				oldest = first[0].At
			}
		}
		seen += len(page)
		if len(page) < pageSize {
			break
		}
		after = page[len(page)-1].SKU
	}
	if !oldest.IsZero() {
		now, err := t.c.Outbox.Now(ctx)
		if err != nil {
			return fmt.Errorf("measure the outbox: %w", err)
		}
		lag.Oldest = max(now.Sub(oldest), 0)
	}
	t.c.Observer.Lag(lag)
	return nil
}

// hide keeps only the text of err, so that errors.Is matches nothing but service.ErrStaleFence.
func hide(err error) error {
	if errors.Is(err, service.ErrStaleFence) {
		return err
	}
	return errors.New(err.Error())
}

func cut(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), order.MaxDeadReason)], "")
}

// stuckEvents has the next event of each SKU whose delivery failed.
type stuckEvents map[service.SKU]*stuckEvent

// A stuckEvent is an event whose delivery failed. The later events of its SKU wait behind it. Only this process
// counts its attempts: a restart resets the count.
type stuckEvent struct {
	number   uint64
	attempts int
	refusals int       // attempts that failed with an error about the event
	next     time.Time // attempt
}

// tooSoon reports whether the next attempt for d.SKU must wait.
func (s stuckEvents) tooSoon(d order.Delivered) bool {
	found := s[d.SKU]
	if found != nil && found.number != d.Number+1 {
		delete(s, d.SKU) // another relay has delivered it meanwhile
		return false
	}
	return found != nil && time.Now().Before(found.next)
}

// of returns the stuckEvent of the event after d, and adds one if there is none.
func (s stuckEvents) of(d order.Delivered) *stuckEvent {
	if found := s[d.SKU]; found != nil && found.number == d.Number+1 {
		return found
	}
	s[d.SKU] = &stuckEvent{number: d.Number + 1}
	return s[d.SKU]
}

// fail counts an attempt and sets the time of the next one. Half of the pause is random, so that SKUs that failed
// together are not retried together.
func (h *stuckEvent) fail(err error, c Config) {
	h.attempts++
	most := c.MaxBackoff
	if errors.Is(err, ErrUnavailable) {
		most = min(most, maxAway)
	} else {
		h.refusals++
	}
	pause := most
	if shift := h.attempts - 1; shift < 20 {
		pause = min(c.Backoff<<shift, most)
	}
	pause = pause/2 + rand.N(pause/2+1)
	var later *LaterError
	if errors.As(err, &later) {
		pause = max(pause, min(later.After, maxLater))
	}
	h.next = time.Now().Add(pause)
}
