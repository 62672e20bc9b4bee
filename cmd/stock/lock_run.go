package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"example.com/stock/lock"
)

// A lockRun is one "stock lock": a command under a lock.
type lockRun struct {
	cfg           Config
	strategy, key string
	argv          []string

	wait      time.Duration // for the lock, if bounded
	bounded   bool
	noWait    bool
	atLeast   time.Duration
	killAfter time.Duration
	maxHold   time.Duration
	quiet     bool

	stdin          io.Reader
	stdout, stderr io.Writer
}

// endless is for a lock that is renewed for as long as the command runs: the end of the command, not a time, is its end.
const endless = 100 * 365 * 24 * time.Hour

// askLimit bounds a try at a server that does not answer.
const askLimit = 5 * time.Second

// run returns the exit status as an exitError, or nil for 0.
func (r *lockRun) run(ctx context.Context) (err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	s, err := findLock(r.strategy)
	if err != nil {
		return exitError{exitUsage, err}
	}
	path, err := exec.LookPath(r.argv[0])
	if err != nil {
		return notStarted(err) // before anybody waits for it
	}
	r.cfg.Lock.MaxHold = endless
	if r.maxHold > 0 {
		r.cfg.Lock.MaxHold = r.maxHold
	}
	a, err := openServers(r.cfg, toolLogger(r.stderr, r.cfg), s)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer func() { _ = a.close() }() // nothing is left but connections
	l, err := a.openLock(s)
	if err != nil {
		return exitError{exitDown, err}
	}

	lease, err := r.acquire(ctx, l, signals)
	if err != nil {
		return err
	}
	began := time.Now()
	err = r.child(path, lease).run(lease, signals)
	r.linger(lease, began, signals)
	return r.giveBack(lease, err)
}

// acquire waits for the lock. A signal ends the wait.
func (r *lockRun) acquire(ctx context.Context, l lock.Locker, signals <-chan os.Signal) (*lock.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outside := ctx
	o := lock.Options{TryOnce: r.noWait, Owner: r.cfg.Instance + "/pid-" + strconv.Itoa(os.Getpid())}
	limit := r.wait
	if r.noWait {
		limit = askLimit
	}
	if r.noWait || r.bounded {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	var come os.Signal
	acquired := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case come = <-signals:
		case <-outside.Done():
			// main has seen a signal: the one that is about to come here, or one from before we could.
			select {
			case come = <-signals:
			case <-time.After(100 * time.Millisecond):
				come = syscall.SIGTERM
			}
		case <-acquired:
		}
		cancel()
	})
	lease, err := l.Acquire(ctx, r.key, o)
	close(acquired)
	watch.Wait()
	switch {
	case come != nil:
		if err == nil {
			_ = lease.Release()
		}
		return nil, exitError{exitSignal + int(come.(syscall.Signal)), nil}
	case err == nil:
		return lease, nil
	case errors.Is(err, lock.ErrDown):
		return nil, exitError{exitDown, fmt.Errorf("lock %q: %w", r.key, err)}
	case errors.Is(err, lock.ErrHeld), errors.Is(err, context.DeadlineExceeded):
		if r.quiet {
			return nil, exitError{exitNotHeld, nil}
		}
		return nil, exitError{exitNotHeld, r.heldBy(err)}
	default:
		return nil, exitError{exitFault, err}
	}
}

// heldBy says who has the lock in one line.
func (r *lockRun) heldBy(err error) error {
	held := &lock.HeldError{Key: r.key}
	errors.As(err, &held)
	if r.noWait {
		return held
	}
	return fmt.Errorf("%w; not free within %v", held, r.wait)
}

// linger keeps the lock for as long as it was asked to be kept at least.
func (r *lockRun) linger(lease *lock.Lease, began time.Time, signals <-chan os.Signal) {
	timer := time.NewTimer(r.atLeast - time.Since(began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lease.Done():
	case <-signals:
	}
}

// giveBack releases the lock. ended is how the command ended.
func (r *lockRun) giveBack(lease *lock.Lease, ended error) error {
	err := lease.Release()
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrLost):
		// Some locks are told of their loss only now.
		return exitError{exitLost, fmt.Errorf("the lock was lost before the command had ended: %w", err)}
	default:
		fmt.Fprintf(r.stderr, "stock: lock %q could not be given back, and is free when its time is over: %v\n", r.key, err)
	}
	return ended
}
