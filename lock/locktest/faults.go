package locktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
)

// A distant Locker is in a process behind proxies, which only it uses.
type distant struct {
	*remote
	wires  []*wire.Proxy
	snares []*wire.Snare // one for each proxy and trap
}

// distant opens a Locker with a process of its own.
func (s *Scene) distant(ctx context.Context) (*distant, error) {
	p, err := s.process()
	if err != nil {
		return nil, err
	}
	return s.behind(ctx, p, 0)
}

// behind opens a Locker in p, see process.open. The traps are set before.
func (s *Scene) behind(ctx context.Context, p *process, plain int, traps ...wire.Trap) (*distant, error) {
	d := new(distant)
	var at []string
	for _, server := range s.Servers {
		w, err := wire.Listen(server.Addr, s.Wire)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.wires = append(s.wires, w)
		s.mu.Unlock()
		d.wires, at = append(d.wires, w), append(at, w.Addr())
	}
	for _, trap := range traps {
		d.set(trap)
	}
	var err error
	d.remote, err = p.open(ctx, s.Harness, at, s.Lease, plain)
	return d, err
}

func (d *distant) set(trap wire.Trap) {
	for _, w := range d.wires {
		d.snares = append(d.snares, w.Set(trap))
	}
}

// requests returns how many requests a server has received.
func (d *distant) requests() (n int) {
	for _, w := range d.wires {
		n = max(n, w.Count(wire.ToServer))
	}
	return n
}

// crash kills a holder, and a waiter that has another waiter behind it.
func crash(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 3, s.Lease)
	if err != nil {
		return err
	}
	h, err := list[0].acquire(ctx, attempt{Key: s.Key, Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if _, err := list[1].begin(attempt{Key: s.Key, Wait: time.Hour}); err != nil {
		return err
	}
	if err := s.queued(ctx, list[2], s.Key, 1); err != nil {
		return err
	}
	wait, err := list[2].begin(attempt{Key: s.Key, Wait: s.Lease + s.timeout, Insist: true})
	if err != nil {
		return err
	}
	if err := errors.Join(list[1].kill(), list[0].kill()); err != nil {
		return err
	}
	next, err := wait(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("a holder and the first waiter were killed; with a lease of %v nobody had the key for %v: %w",
			s.Lease, s.Lease+s.timeout, err)
	case s.Promise.Fenced && next.Fence <= h.Fence:
		return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
	}
	_, err = next.release(ctx)
	return err
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
	patient, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	got := come(patient, list[1], s.Key)
	if err := waits(got, 12*StatementLimit); err != nil {
		return err
	}
	if _, err := h.release(ctx); err != nil {
		return err
	}
	return <-got
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
	return parallel(n, 4, func(k int) error {
		if err := s.crashPoint(ctx, list[1], k); err != nil {
			return fmt.Errorf("killed before request %d of %d: %w", k+1, n, err)
		}
		return nil
	})
}

func (s *Scene) crashPoint(ctx context.Context, sound *remote, k int) error {
	doomed, err := s.distant(ctx)
	if err != nil {
		return err
	}
	doomed.set(wire.Trap{Skip: k, Do: wire.Hold})
	key := FreshKey()
	wait, err := doomed.begin(attempt{Key: key, Wait: s.timeout})
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
	for _, snare := range doomed.snares {
		select {
		case <-snare.Sprung():
		case <-got: // the acquisition took fewer requests
		}
	}
	if err := doomed.kill(); err != nil {
		return err
	}
	for _, w := range doomed.wires {
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

// cuts counts the requests of an acquisition and its release, once for a free key and once for a held one. Then it
// repeats both for each request, once without the request and once without the reply. Last, each connection breaks at
// its first request.
func cuts(ctx context.Context, s *Scene) error {
	list, err := s.processes(ctx, 2, s.Lease)
	if err != nil {
		return err
	}
	far, sound := list[0], list[1]
	var tries []func() error
	try := func(do func() error, what string, args ...any) {
		tries = append(tries, func() error {
			return s.retry(ctx, func() error {
				if err := do(); err != nil {
					return fmt.Errorf(what+": %w", append(args, err)...)
				}
				return nil
			})
		})
	}
	parts := map[wire.Action]string{wire.Cut: "all", wire.CutReply: "the reply"}
	for _, contended := range []bool{false, true} {
		n, err := s.requests(ctx, far, sound, contended)
		if err != nil {
			return err
		}
		s.seen += fmt.Sprintf("%d requests, contended %v; ", n, contended)
		for k := range min(n, 16) { // a lock that polls sends more
			for do, part := range parts {
				try(func() error { return s.cut(ctx, far, sound, wire.Trap{Skip: k, Do: do}, contended) },
					"%s of request %d of %d, contended %v, is lost", part, k+1, n, contended)
			}
		}
	}
	if s.Renews {
		for do, part := range parts {
			try(func() error { return s.cutRenewal(ctx, far, sound, do) }, "%s of a renewal is lost", part)
		}
	}
	try(func() error {
		_, err := s.trapped(ctx, far, sound, wire.Trap{Do: wire.Cut, Every: true})
		return err
	}, "every connection breaks")
	return parallel(len(tries), 4, func(i int) error { return tries[i]() })
}

// requests counts the requests of a new locker with a new key.
func (s *Scene) requests(ctx context.Context, far, sound *remote, contended bool) (int, error) {
	r, err := s.behind(ctx, far.process, 0)
	if err != nil {
		return 0, err
	}
	defer r.close(ctx)
	h, err := s.approach(ctx, r, sound, contended)
	if err == nil {
		_, err = h.release(ctx)
	}
	n := r.requests()
	if n == 0 && err == nil {
		err = errors.New("no request was seen")
	}
	if isLost(err) { // a busy computer
		err = nil
	}
	return n, err
}

// approach acquires a fresh key with r. If contended, sound holds the key until the traps have acted, or for a short
// time. After an error the lease has only the key.
func (s *Scene) approach(ctx context.Context, r *distant, sound *remote, contended bool) (*remoteLease, error) {
	none := &remoteLease{Key: FreshKey()}
	if !contended {
		h, err := r.acquire(ctx, attempt{Key: none.Key, Wait: s.timeout})
		return cmp.Or(h, none), err
	}
	before, err := sound.acquire(ctx, attempt{Key: none.Key, Wait: s.timeout, Insist: true})
	if err != nil {
		return none, err
	}
	wait, err := r.begin(attempt{Key: none.Key, Wait: s.Lease + s.timeout})
	if err != nil {
		return none, err
	}
	// The acquisition should begin to wait in this time; if it has not, the check is only weaker.
	moment, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	for _, snare := range r.snares {
		select {
		case <-snare.Sprung():
		case <-moment.Done():
		}
	}
	if r.snares == nil {
		<-moment.Done()
	}
	if _, err := before.release(ctx); err != nil && !isLost(err) {
		return none, err
	}
	h, err := wait(ctx)
	return cmp.Or(h, none), err
}

// cut sets the trap on every connection, acquires, and releases if the acquisition succeeded.
func (s *Scene) cut(ctx context.Context, far, sound *remote, trap wire.Trap, contended bool) error {
	r, err := s.behind(ctx, far.process, 0, trap)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	h, err := s.approach(ctx, r, sound, contended)
	if err != nil {
		if !errors.Is(err, lock.ErrDown) {
			return fmt.Errorf("acquire: %w, want ErrDown", err)
		}
		return s.freeAgain(ctx, r, sound, h)
	}
	rival, err := sound.acquire(ctx, attempt{Key: h.Key, Wait: s.timeout, Try: true})
	if err := s.noRival(ctx, h, rival, err); err != nil {
		return err
	}
	return s.giveBack(ctx, r, sound, h)
}

// giveBack releases a lease that may have been cut meanwhile, and checks that the key becomes free.
func (s *Scene) giveBack(ctx context.Context, r *distant, sound *remote, h *remoteLease) error {
	if _, err := h.release(ctx); err != nil && !errors.Is(err, lock.ErrDown) && !isLost(err) {
		return fmt.Errorf("release: %w, want none, ErrDown or ErrLost", err)
	}
	return s.freeAgain(ctx, r, sound, h)
}

// cutRenewal drops the first request after an acquisition, or breaks the connection if no request follows.
func (s *Scene) cutRenewal(ctx context.Context, far, sound *remote, action wire.Action) error {
	r, err := s.behind(ctx, far.process, 0)
	if err != nil {
		return err
	}
	defer r.close(ctx)
	h, err := r.acquire(ctx, attempt{Key: FreshKey(), Wait: s.timeout, Insist: true})
	if err != nil {
		return err
	}
	for _, w := range r.wires {
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
	return s.giveBack(ctx, r, sound, h)
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
func (s *Scene) freeAgain(ctx context.Context, r *distant, sound *remote, h *remoteLease) error {
	for _, snare := range r.snares {
		snare.Release()
	}
	for _, who := range []*remote{r.remote, sound} {
		next, err := who.acquire(ctx, attempt{Key: h.Key, Wait: s.Lease + s.timeout, Insist: true})
		if err != nil {
			return fmt.Errorf("something was left behind: %w", err)
		}
		if s.Promise.Fenced && next.Fence <= h.Fence {
			return fmt.Errorf("fence %d after %d", next.Fence, h.Fence)
		}
		_, err = next.release(ctx)
		if err != nil && !isLost(err) && !errors.Is(err, lock.ErrDown) { // a trap may spring late
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
	return parallel(n+1, 4, func(k int) error {
		trap := wire.Trap{Skip: k, Do: wire.Answer, Answer: s.Refuse}
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

// trapped sets the trap on every connection, acquires, and releases if the acquisition succeeded, which is an error if
// the trap acts on every request. It returns the number of requests until the acquisition failed.
func (s *Scene) trapped(ctx context.Context, far, sound *remote, trap wire.Trap) (sent int, err error) {
	r, err := s.behind(ctx, far.process, 0, trap)
	if err != nil {
		return 0, err
	}
	defer r.close(ctx)
	key := FreshKey()
	h, err := r.acquire(ctx, attempt{Key: key, Wait: s.timeout})
	sent = r.requests()
	switch {
	case err == nil && trap.Every:
		return sent, errors.New("a lease without a server")
	case err == nil:
		return sent, s.giveBack(ctx, r, sound, h)
	case !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld):
		return sent, fmt.Errorf("acquire: %w, want ErrDown", err)
	}
	return sent, s.freeAgain(ctx, r, sound, &remoteLease{Key: key})
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
		soon, cancel := context.WithTimeout(ctx, s.Lease+2*s.timeout)
		defer cancel()
		if err := <-come(soon, r, s.Key); err != nil {
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
	wait, err := other.begin(attempt{Key: key, Wait: s.Lease + 4*s.timeout, Insist: true})
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
		p, err := s.process()
		if err != nil {
			return err
		}
		if before[i], err = p.goroutines(ctx); err != nil {
			return err
		}
		if list[i], err = p.open(ctx, s.Harness, addrs(s.Servers), calm, 0); err != nil {
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
		if err := r.close(ctx); err != nil {
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
	answer, err := p.call(ctx, request{Do: "count"})
	return answer.N, err
}
