package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/stock/lock"
)

// A remote is a Locker in another process. It is a lock.Locker itself, so that a sentence need not know.
type remote struct {
	*process
	locker int
}

// open opens a locker of bench b in p.
func (p *process) open(ctx context.Context, b Harness, addrs []string, lease time.Duration) (*remote, error) {
	id, _, err := p.call(ctx, request{Do: "open", Key: b.Name, Addrs: addrs, Term: lease})
	if err != nil {
		return nil, fmt.Errorf("open %s in a process of its own: %w", b.Name, err)
	}
	return &remote{p, id}, nil
}

// A held is a lease in another process.
type held struct {
	*process
	id    int
	Key   string
	Fence lock.Fence
	From  time.Duration // after the answer to Acquire, by its process
	lost  <-chan reply
}

// A grip is one try to get a lease.
type grip struct {
	Key    string
	Wait   time.Duration
	Try    bool
	Insist bool
}

// take begins to acquire and returns at once. Who cancels ends the wait.
func (r *remote) take(g grip) (wait func(context.Context) (*held, error), cancel func(), err error) {
	a, err := r.ask(request{Do: "acquire", Locker: r.locker, Key: g.Key, Wait: g.Wait, Try: g.Try, Insist: g.Insist})
	if err != nil {
		return nil, nil, err
	}
	wait = func(ctx context.Context) (*held, error) {
		answer, err := r.await(ctx, a.come)
		if err == nil {
			err = answer.Err.error()
		}
		if err != nil {
			return nil, err
		}
		return &held{r.process, a.id, g.Key, answer.Fence, answer.From, a.lost}, nil
	}
	cancel = func() { _, _ = r.ask(request{Do: "cancel", Lease: a.id}) }
	return wait, cancel, nil
}

// get acquires.
func (r *remote) get(ctx context.Context, g grip) (*held, error) {
	wait, _, err := r.take(g)
	if err != nil {
		return nil, err
	}
	return wait(ctx)
}

// release gives the lease back. The time is that before the request.
func (h *held) release(ctx context.Context) (to time.Duration, err error) {
	_, answer, err := h.call(ctx, request{Do: "release", Lease: h.id})
	return answer.To, err
}

// loss waits until the lease has ended by itself, and tells when its process knew and why.
func (h *held) loss(ctx context.Context) (at time.Duration, why error, err error) {
	answer, err := h.await(ctx, h.lost)
	if err != nil {
		return 0, nil, fmt.Errorf("no loss was signalled: %w", err)
	}
	h.lost = again(answer)
	return answer.To, answer.Err.error(), nil
}

func again(r reply) <-chan reply {
	same := make(chan reply, 1)
	same <- r
	return same
}

// Acquire is that of lock.Locker: the wait is bounded here, and its cause told as of there.
func (r *remote) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	wait := patience
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	await, cancel, err := r.take(grip{Key: key, Wait: wait, Try: o.TryOnce})
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, cancel)()
	bound, stop := context.WithTimeout(context.WithoutCancel(ctx), max(wait, 0)+2*patience)
	defer stop()
	h, err := await(bound)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			err = errors.Join(err, cause)
		}
		return nil, err
	}
	lease, lost := lock.NewLease(key, h.Fence, func(ctx context.Context) error {
		// The contender's own release is bounded; a busy computer may take its time to tell.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, err := h.release(ctx)
		return err
	})
	h.owned.Go(func() {
		select {
		case end := <-h.lost:
			if why := end.Err.error(); !errors.Is(why, lock.ErrReleased) {
				lost(why)
			}
		case <-h.exit:
			lost(errGone)
		}
	})
	return lease, nil
}

// Inspect is that of lock.Inspector, but of those who wait it tells only how many they are.
func (r *remote) Inspect(ctx context.Context, key string) (lock.State, error) {
	_, answer, err := r.call(ctx, request{Do: "waiters", Locker: r.locker, Key: key})
	return lock.State{Waiters: make([]lock.Contender, answer.N)}, err
}
