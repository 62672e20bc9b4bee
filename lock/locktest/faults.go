package locktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

func crash(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	h, err := list[0].acquire(ctx, attempt{Key: s.Key, Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	wait, _, err := list[1].begin(attempt{Key: s.Key, Wait: s.Lease + s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if err := list[0].kill(); err != nil {
		return err
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf(
			"a holder was killed, and with a lease of %v nobody had the key for %v: %w", s.Lease,
			s.Lease+s.timeout, err,
		)
	}
	if s.Promise.Fenced && next.Fence <= h.Fence {
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	_, err = next.release(ctx)
	return err
}

// pings puts a holder behind a proxy whose pings prove nothing about the server.
func pings(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 1, s.Lease)
	if err != nil {
		return err
	}
	sound := list[0]
	return s.retry(ctx, func() error {
		wires, at, err := s.wired()
		if err != nil {
			return err
		}
		for _, w := range wires {
			w.AnswerPings()
		}
		far, err := s.process(ctx, at, s.Lease)
		if err != nil {
			return err
		}
		h, err := far.acquire(ctx, attempt{Key: FreshKey(), Wait: s.timeout, Insist: true})
		if err != nil {
			return err
		}
		rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: 5 * s.Lease / 2})
		if err == nil {
			return errors.Join(fmt.Errorf("another had the key after %v of a lease of %v", rival.From-h.From, s.Lease),
				s.noRival(ctx, h, rival, nil))
		}
		for _, w := range wires {
			w.EndSessions()
		}
		rival, err = sound.acquire(ctx, attempt{Key: h.Key, Wait: 5 * s.Lease / 2})
		return s.noRival(ctx, h, rival, err)
	})
}

// StatementLimit is the time limit of Harness.Limit.
const StatementLimit = 200 * time.Millisecond

// statementLimit lets a waiter wait for several times as long as the server lets a statement take.
func statementLimit(ctx context.Context, s *Scene) error {
	if err := s.Limit(ctx, addrs(s.Servers)); err != nil {
		return err
	}
	list, err := s.processes(ctx, 2, calm)
	if err != nil {
		return err
	}
	h, err := list[0].acquire(ctx, attempt{Key: s.Key, Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	wait, _, err := list[1].begin(attempt{Key: s.Key, Wait: s.timeout})
	if err != nil {
		return err
	}
	got := make(chan error, 1)
	s.suite.tries.Go(func() {
		next, err := wait(ctx)
		if err == nil {
			_, err = next.release(ctx)
		}
		got <- err
	})
	select {
	case err := <-got:
		return fmt.Errorf("a waiter did not wait on while the key was held: %w", err)
	case <-time.After(12 * StatementLimit):
	}
	if _, err := h.release(ctx); err != nil {
		return err
	}
	if err := <-got; err != nil {
		return fmt.Errorf("a waiter whose key was released: %w", err)
	}
	return nil
}

// deadWaiter kills a waiter that has another waiter behind it.
func deadWaiter(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	h, err := list[0].acquire(ctx, attempt{Key: s.Key, Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if _, _, err := list[1].begin(attempt{Key: s.Key, Wait: time.Hour}); err != nil {
		return err
	}
	if s.Promise.Fair {
		err = queued(ctx, list[0], s.Key, 1)
	} else {
		time.Sleep(100 * time.Millisecond) // lets it begin to wait; if it has not begun, the check is only weaker
	}
	if err != nil {
		return err
	}
	wait, _, err := list[2].begin(attempt{Key: s.Key, Wait: 2 * s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if err := list[1].kill(); err != nil {
		return err
	}
	if _, err := h.release(ctx); err != nil && !isLost(err) { // a lease that is not renewed may have expired
		return err
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("behind a waiter that was killed: %w", err)
	}
	if _, err = next.release(ctx); err != nil && !isLost(err) {
		return err
	}
	return nil
}

// generations kills the process of each holder in turn, some of them while they hold.
func generations(ctx context.Context, s *Scene) error {
	var last lock.Fence
	for i := range 3 {
		p, err := s.process(ctx, addrs(s.Servers), s.Lease)
		if err != nil {
			return err
		}
		h, err := p.acquire(ctx, attempt{Key: s.Key, Wait: s.Lease + s.timeout, Insist: true})
		if err != nil {
			return err
		}
		if h.Fence <= last {
			return fmt.Errorf("fence %d after %d", h.Fence, last)
		}
		last = h.Fence
		if i == 0 {
			if _, err := h.release(ctx); err != nil {
				return err
			}
		}
		if err := p.kill(); err != nil {
			return err
		}
	}
	return nil
}

// crashPoints kills a process before each request of its acquisition, and after the last one.
func crashPoints(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	n, err := s.requests(ctx, list[0], list[1], false)
	if err != nil {
		return err
	}
	return fourAtATime(n, func(k int) error {
		if err := s.crashPoint(ctx, list[1], k); err != nil {
			return fmt.Errorf("killed before request %d of %d: %w", k+1, n, err)
		}
		return nil
	})
}

func (s *Scene) crashPoint(ctx context.Context, sound *remote, k int) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	doomed, err := s.process(ctx, at, s.Lease)
	if err != nil {
		return err
	}
	var snares []*wire.Snare
	for _, w := range wires {
		snares = append(snares, w.Set(wire.Trap{Skip: k, Do: wire.Hold}))
	}
	key := FreshKey()
	wait, _, err := doomed.begin(attempt{Key: key, Wait: s.timeout})
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got := make(chan struct{})
	s.suite.tries.Go(func() {
		_, _ = wait(soon)
		close(got)
	})
	for _, snare := range snares {
		select {
		case <-snare.Sprung():
		case <-got: // the acquisition took fewer requests
		}
	}
	if err := doomed.kill(); err != nil {
		return err
	}
	for _, w := range wires {
		w.Cut() // what was held back is lost, and the server sees the end of the connection
	}
	next, err := sound.acquire(ctx, attempt{Key: key, Wait: s.Lease + s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if _, err := next.release(ctx); err != nil && !isLost(err) {
		return err
	}
	return nil
}

func fourAtATime(n int, do func(i int) error) error {
	failed := make([]error, n)
	turns := make(chan struct{}, 4)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			failed[i] = do(i)
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// cuts counts the requests of an acquisition and its release, once for a free key and once for a held one. Then it
// repeats both for each request, once without the request and once without the reply.
func cuts(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	far, sound := list[0], list[1]
	var tries []func() error
	for _, contended := range []bool{false, true} {
		n, err := s.requests(ctx, far, sound, contended)
		if err != nil {
			return err
		}
		s.seen += fmt.Sprintf("%d requests, contended %v; ", n, contended)
		for k := range min(n, 16) { // a lock that polls sends more
			for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
				tries = append(tries, func() error {
					return s.retry(ctx, func() error {
						if err := s.cut(ctx, far, sound, wire.Trap{Skip: k, Do: do}, contended); err != nil {
							return fmt.Errorf(
								"%s of request %d of %d, contended %v, is lost: %w", part(do), k+1, n,
								contended, err,
							)
						}
						return nil
					})
				})
			}
		}
	}
	for _, do := range []wire.Action{wire.Cut, wire.CutReply} {
		if s.Renews {
			tries = append(tries, func() error {
				return s.retry(ctx, func() error {
					if err := s.cutRenewal(ctx, far, sound, do); err != nil {
						return fmt.Errorf("%s of a renewal is lost: %w", part(do), err)
					}
					return nil
				})
			})
		}
	}
	return fourAtATime(len(tries), func(i int) error { return tries[i]() })
}

func part(do wire.Action) string {
	if do == wire.Cut {
		return "all"
	}
	return "the reply"
}

// requests counts the requests of a new locker with a new key.
func (s *Scene) requests(ctx context.Context, far, sound *remote, contended bool) (int, error) {
	wires, at, err := s.wired()
	if err != nil {
		return 0, err
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return 0, err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := s.approach(ctx, r, sound, contended, nil)
	if err == nil {
		_, err = h.release(ctx)
	}
	n := 0
	for _, w := range wires {
		n = max(n, w.Count(toServer))
	}
	if n == 0 && err == nil {
		err = errors.New("no request was seen")
	}
	if isLost(err) { // a busy computer
		err = nil
	}
	return n, err
}

// approach acquires a fresh key with r. If contended, sound holds the key until the traps have acted, or for a short
// time.
func (s *Scene) approach(
	ctx context.Context,
	r, sound *remote,
	contended bool,
	snares []*wire.Snare,
) (*remoteLease, error) {
	key := FreshKey()
	if !contended {
		h, err := r.acquire(ctx, attempt{Key: key, Wait: s.timeout})
		return orKey(h, key), err
	}
	before, err := sound.acquire(ctx, attempt{Key: key, Wait: s.timeout, Insist: true})
	if err != nil {
		return orKey(nil, key), err
	}
	wait, _, err := r.begin(attempt{Key: key, Wait: s.Lease + s.timeout})
	if err != nil {
		return orKey(nil, key), err
	}
	// The acquisition should begin to wait in this time; if it has not, the check is only weaker.
	moment, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for _, snare := range snares {
		select {
		case <-snare.Sprung():
		case <-moment.Done():
		}
	}
	if snares == nil {
		<-moment.Done()
	}
	if _, err := before.release(ctx); err != nil && !isLost(err) {
		return orKey(nil, key), err
	}
	h, err := wait(ctx)
	return orKey(h, key), err
}

// orKey returns h. If h is nil, it returns a lease that has only the key.
func orKey(h *remoteLease, key string) *remoteLease {
	if h == nil {
		return &remoteLease{Key: key}
	}
	return h
}

// cut sets the trap on every connection, acquires, and releases if the acquisition succeeded.
func (s *Scene) cut(ctx context.Context, far, sound *remote, trap wire.Trap, contended bool) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	var snares []*wire.Snare
	for _, w := range wires {
		snares = append(snares, w.Set(trap))
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := s.approach(ctx, r, sound, contended, snares)
	if err != nil {
		if !errors.Is(err, lock.ErrDown) {
			return fmt.Errorf("acquire: %w, want ErrDown", err)
		}
		return s.freeAgain(ctx, r, sound, h, snares)
	}
	rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: s.timeout, Try: true})
	if err := s.noRival(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h, snares)
}

// giveBack releases a lease that may have been cut meanwhile, and checks that the key becomes free.
func (s *Scene) giveBack(ctx context.Context, r, sound *remote, h *remoteLease, snares []*wire.Snare) error {
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !isLost(err) {
		return fmt.Errorf("release: %w, want none, ErrDown or ErrLost", err)
	}
	return s.freeAgain(ctx, r, sound, h, snares)
}

// cutRenewal drops the first request after an acquisition, or breaks the connection if no request follows.
func (s *Scene) cutRenewal(ctx context.Context, far, sound *remote, action wire.Action) error {
	wires, at, err := s.wired()
	if err != nil {
		return err
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	h, err := r.acquire(ctx, attempt{Key: FreshKey(), Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	for _, w := range wires {
		snare := w.Set(wire.Trap{Do: action})
		select {
		case <-snare.Sprung():
		case <-time.After(s.Lease):
			snare.Release()
			w.Cut()
		}
	}
	rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: s.Lease})
	if err := s.noRival(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h, nil)
}

// noRival checks that a rival got no lease, unless the holder had lost the key. If the lock promises it, the
// holder must have noticed the loss.
func (s *Scene) noRival(ctx context.Context, h, rival *remoteLease, err error) error {
	if err != nil {
		if !errors.Is(err, lock.ErrHeld) {
			return fmt.Errorf("a rival was told %w, want ErrHeld", err)
		}
		return nil
	}
	defer func() { _, _ = rival.release(ctx) }()
	soon, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	at, _, err := h.loss(soon)
	switch {
	case err != nil:
		return fmt.Errorf("a rival has the key: %w", err)
	case s.Promise.SignalsLoss && at > rival.From:
		return fmt.Errorf("the loss was known %v after a rival had the key", at-rival.From)
	case s.Promise.Fenced && rival.Fence <= h.Fence:
		return fmt.Errorf("fence %d after %d", rival.Fence, h.Fence)
	}
	return nil
}

// freeAgain checks that both the process that was cut off and an unharmed one can acquire the key within the lease. It
// first removes the remaining traps.
func (s *Scene) freeAgain(ctx context.Context, r, sound *remote, h *remoteLease, snares []*wire.Snare) error {
	for _, snare := range snares {
		snare.Release()
	}
	for _, who := range []*remote{r, sound} {
		next, err := who.acquire(ctx, attempt{Key: h.Key, Wait: s.Lease + s.timeout, Insist: true})
		if err != nil {
			return fmt.Errorf("something was left behind: %w", err)
		}
		if s.Promise.Fenced && next.Fence <= h.Fence {
			return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
		}
		if _, err := next.release(
			ctx,
		); err != nil && !isLost(err) &&
			!errors.Is(err, lock.ErrDown) { // a trap may spring late
			return fmt.Errorf("release afterwards: %w", err)
		}
	}
	return nil
}

// refusals refuses each request of an acquisition and its release in turn, and then all of them.
func refusals(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	far, sound := list[0], list[1]
	n, err := s.requests(ctx, far, sound, false)
	if err != nil {
		return err
	}
	s.seen = fmt.Sprintf("%d requests", n)
	return fourAtATime(n+1, func(k int) error {
		trap := wire.Trap{Skip: k, Do: wire.Answer, Rewrite: s.Refuse}
		if k == n {
			trap.Skip, trap.Every = 0, true
		}
		return s.retry(ctx, func() error {
			sent, err := s.trapped(ctx, far, sound, trap)
			if err == nil && trap.Every && sent > n {
				err = fmt.Errorf("%d requests of one acquisition", sent)
			}
			if err != nil {
				return fmt.Errorf("request %d of %d is refused (each of them: %v): %w", k+1, n, trap.Every, err)
			}
			return nil
		})
	})
}

// closes breaks each connection at its first request.
func closes(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	_, err = s.trapped(ctx, list[0], list[1], wire.Trap{Do: wire.Cut, Every: true})
	return err
}

// trapped sets the trap on every connection, acquires, and releases if the acquisition succeeded, which is an error if
// the trap acts on every request. It returns the number of requests until the acquisition failed.
func (s *Scene) trapped(ctx context.Context, far, sound *remote, trap wire.Trap) (sent int, err error) {
	wires, at, err := s.wired()
	if err != nil {
		return 0, err
	}
	var snares []*wire.Snare
	for _, w := range wires {
		snares = append(snares, w.Set(trap))
	}
	r, err := far.open(ctx, s.Harness, at, s.Lease)
	if err != nil {
		return 0, err
	}
	defer func() { _, _, _ = r.call(ctx, request{Do: "close", Locker: r.locker}) }()
	key := FreshKey()
	h, err := r.acquire(ctx, attempt{Key: key, Wait: s.timeout})
	for _, w := range wires {
		sent = max(sent, w.Count(toServer))
	}
	switch {
	case err == nil && trap.Every:
		return sent, errors.New("a lease without a server")
	case err == nil:
		return sent, s.giveBack(ctx, r, sound, h, snares)
	case !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld):
		return sent, fmt.Errorf("acquire: %w, want ErrDown", err)
	}
	return sent, s.freeAgain(ctx, r, sound, orKey(nil, key), snares)
}

// restart kills the servers, or as many as may fail, while there are a holder and a waiter.
func restart(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	if err := s.retry(ctx, func() error { return s.outage(ctx, list[0], list[1]) }); err != nil {
		return err
	}
	for _, r := range list {
		h, err := r.acquire(ctx, attempt{Key: s.Key, Wait: s.Lease + 2*s.timeout, Insist: true})
		if err == nil {
			_, err = h.release(ctx)
		}
		if err != nil {
			return fmt.Errorf("after the restart: %w", err)
		}
	}
	return nil
}

func (s *Scene) outage(ctx context.Context, one, other *remote) error {
	key := FreshKey()
	h, err := one.acquire(ctx, attempt{Key: key, Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	wait, _, err := other.begin(attempt{Key: key, Wait: s.Lease + 4*s.timeout, Insist: true})
	if err != nil {
		return err
	}
	down := s.Servers
	if s.Failing > 0 {
		down = down[:s.Failing]
	}
	for _, server := range down {
		if err := server.Kill(); err != nil {
			return err
		}
	}
	for _, server := range down {
		if err := server.Restart(ctx); err != nil {
			return err
		}
	}
	// The holder keeps the key for a while: a restarted server that has lost the key would now grant it to the waiter.
	soon, cancel := context.WithTimeout(ctx, s.Lease/2)
	defer cancel()
	if rival, err := wait(soon); err == nil {
		return s.noRival(ctx, h, rival, nil)
	}
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !isLost(err) {
		return fmt.Errorf("release: %w, want none, ErrLost or ErrDown", err)
	}
	next, err := wait(ctx)
	if err != nil {
		return fmt.Errorf("a waiter over the restart: %w", err)
	}
	defer func() { _, _ = next.release(ctx) }()
	if s.Promise.Fenced && next.Fence <= h.Fence {
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	return nil
}

// perKey is the number of entries that a key may leave on a server: its fence, and the record that is locked.
const perKey = 2

// few is the number of additional goroutines that do not count as a leak.
const few = 10

func traces(ctx context.Context, s *Scene) error {
	list, before := make([]*remote, 2), make([]int, 2)
	for i := range list {
		p, err := s.emptyProcess()
		if err != nil {
			return err
		}
		if before[i], err = p.goroutines(ctx); err != nil {
			return err
		}
		if list[i], err = p.open(ctx, s.Harness, addrs(s.Servers), calm); err != nil {
			return err
		}
	}
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprintf("%s-%d", s.Key, i))
	}
	// At least 40 rounds in each process, so that a leak of one goroutine per round exceeds few.
	history, err := runStorms(ctx, list, storm{
		Keys: keys, Workers: 8, Rounds: traceRounds, Limit: s.storm, Least: 5, Leave: 10,
	})
	if err == nil {
		err = overlaps(history, s.Promise.Fenced)
	}
	if err != nil {
		return err
	}
	for _, r := range list {
		if _, _, err := r.call(ctx, request{Do: "close", Locker: r.locker}); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	s.seen = fmt.Sprintf("%d acquisitions", len(history))
	if s.Kept != nil {
		n, err := s.Kept(ctx, addrs(s.Servers), s.Key)
		if err != nil {
			return err
		}
		if s.seen += fmt.Sprintf(", %d things of %d keys stay", n, len(keys)); n > perKey*len(keys) {
			return fmt.Errorf("%s: that is more than %d for each", s.seen, perKey)
		}
	}
	left := ""
	for deadline := time.Now().Add(s.timeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left, err = s.left(ctx, list, before); err != nil || left == "" {
			return err
		}
	}
	return errors.New(left)
}

func (s *Scene) left(ctx context.Context, list []*remote, before []int) (string, error) {
	for i, r := range list {
		after, err := r.goroutines(ctx)
		if err != nil {
			return "", err
		}
		// The runtime or the contender may start a few goroutines after the first count. A leak would add one goroutine
		// for each of thousands of acquisitions.
		if after > before[i]+few {
			return fmt.Sprintf("%d goroutines, %d before", after, before[i]), nil
		}
	}
	if s.Left == nil {
		return "", nil
	}
	names, err := s.Left(ctx, addrs(s.Servers), s.Key)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return fmt.Sprintf("%d things on the server, such as %s", len(names), names[0]), nil
}

func (p *process) goroutines(ctx context.Context) (int, error) {
	_, answer, err := p.call(ctx, request{Do: "count"})
	return answer.N, err
}
