package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/app"
	"example.com/stock/lock"
)

// The exit statuses of "stock lock run" itself, as in sysexits.h if that has one. All others are those of the command.
const (
	exitUsage    = 64
	exitDown     = 69
	exitFault    = 70
	exitNotHeld  = 75
	exitLost     = 76
	exitNotRun   = 126
	exitNotFound = 127
	exitSignal   = 128 // and the signal
)

// The environment of the command. The names do not begin with STOCK_, which is for settings: a stock in the command
// would refuse them.
const (
	envStrategy = "LOCK_STRATEGY"
	envKey      = "LOCK_KEY"
	envFence    = "LOCK_FENCE"
	envHeld     = "LOCK_HELD" // a line "strategy key" for each lock that is held around the command
)

func lockCommand(v voice) *cobra.Command {
	run := lockRunCommand(v)
	cmd := parent("lock", run, lockListCommand(v), lockEvictCommand(v))
	// What "stock lock run" is now was "stock lock", with the same flags.
	cmd.SetFlagErrorFunc(func(failed *cobra.Command, err error) error {
		absent, is := errors.AsType[*pflag.NotExistError](err)
		if is && failed == cmd && run.Flags().Lookup(absent.GetSpecifiedName()) != nil {
			return exitError{exitUsage, failure("lock.moved")}
		}
		return exitError{exitUsage, app.FlagError(verbFirst(failed, err))}
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() >= 0 {
			return exitError{exitUsage, failure("lock.moved")}
		}
		return noArgs(cmd, args)
	}
	return cmd
}

func lockRunCommand(v voice) *cobra.Command {
	r := lockRun{voice: v}
	var config *pflag.FlagSet
	cmd := &cobra.Command{
		Use: "run <strategy> <key> [--wait 10s | --no-wait] -- command [argument ...]",
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 && len(args) > 2:
				return exitError{exitUsage, failure("lock.no-dashes")}
			case dash != 2 || len(args) == 2:
				return exitError{exitUsage, failure("lock.usage")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := app.Load(config)
			if err == nil {
				err = app.CheckKey(args[1])
			}
			if err == nil {
				err = r.check(cmd.Flags(), args[0], args[1])
			}
			if err != nil {
				return exitError{exitUsage, err}
			}
			if cfg.Instance == "" {
				// The default of an instance names the port that it listens on.
				if host, err := os.Hostname(); err == nil {
					cfg.Instance = host
				}
			}
			r.cfg, r.strategy, r.key, r.argv = cfg, args[0], args[1], args[2:]
			r.stderr = cmd.ErrOrStderr()
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&r.wait, "wait", 0, "")
	flags.BoolVar(&r.noWait, "no-wait", false, "")
	flags.DurationVar(&r.atLeast, "at-least", 0, "")
	flags.DurationVar(&r.killAfter, "kill-after", 5*time.Second, "")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "")
	config = app.AddLockFlags(flags)
	return cmd
}

// check refuses flags that contradict each other.
func (r *lockRun) check(flags *pflag.FlagSet, strategy, key string) error {
	r.bounded = flags.Changed("wait")
	switch {
	case r.bounded && r.noWait:
		return failure("lock.wait-twice")
	case min(r.wait, r.atLeast, r.killAfter) < 0:
		return failure("lock.negative")
	case slices.Contains(strings.Split(os.Getenv(envHeld), "\n"), strategy+" "+key):
		return failure("lock.itself", "key", strconv.Quote(key))
	}
	if r.bounded && r.wait == 0 {
		r.noWait = true
	}
	return nil
}

// lockLogger returns a log that is silent unless --log-level is debug: the command itself tells its user what matters.
func lockLogger(w io.Writer, cfg app.Config) *slog.Logger {
	log := slog.New(slog.DiscardHandler)
	if cfg.Log.Level == "debug" {
		log = app.NewLogger(w, cfg)
	}
	app.LogRedis(log)
	return log
}

// A lockRun is one "stock lock run": a command under a lock.
type lockRun struct {
	voice
	cfg           app.Config
	strategy, key string
	argv          []string

	wait      time.Duration // for the lock, if bounded
	bounded   bool
	noWait    bool
	atLeast   time.Duration
	killAfter time.Duration
	quiet     bool

	stderr io.Writer
}

// endless is the longest hold: the lock is renewed for as long as the command runs.
const endless = 100 * 365 * 24 * time.Hour

// askLimit is how long to wait for a server that does not answer.
const askLimit = 5 * time.Second

// run returns the exit status as an exitError, or nil for 0.
func (r *lockRun) run(ctx context.Context) (err error) {
	// Without a receiver, output that is no longer read would end this process, and not the command.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	s, err := app.FindLock(r.strategy)
	if err != nil {
		return exitError{exitUsage, err}
	}
	path, err := exec.LookPath(r.argv[0])
	if err != nil {
		return notStarted(err) // before waiting for the lock
	}
	r.cfg.Lock.MaxHold = endless
	locks, err := app.OpenLocks(r.cfg, lockLogger(r.stderr, r.cfg), s)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer func() { _ = locks.Close() }() // nothing is left but connections
	l, err := locks.Open(s)
	if err != nil {
		return exitError{exitDown, err}
	}

	lease, err := r.acquire(ctx, l, signals)
	if err != nil {
		return err
	}
	began := time.Now()
	c := r.child(path, l, lease)
	if err = c.run(signals); c.lost {
		_ = lease.Release() // it returns the loss
		return err
	}
	r.linger(lease, began, signals)
	return r.release(lease, err)
}

// acquire waits for the lock. A signal ends the wait.
func (r *lockRun) acquire(ctx context.Context, l lock.Locker, signals <-chan os.Signal) (*lock.Lease, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outside := ctx
	o := lock.Options{TryOnce: r.noWait, Owner: r.owner()}
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
			// main has seen a signal: one that is about to arrive here, or one from before this function received
			// signals.
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
		return nil, exitError{exitDown, failure("lock.down", "key", strconv.Quote(r.key), "why", err)}
	case errors.Is(err, lock.ErrHeld), errors.Is(err, context.DeadlineExceeded):
		if r.quiet {
			return nil, exitError{exitNotHeld, nil}
		}
		return nil, exitError{exitNotHeld, r.heldBy(err)}
	default:
		return nil, exitError{exitFault, err}
	}
}

func (r *lockRun) owner() string { return r.cfg.Instance + "/pid-" + strconv.Itoa(os.Getpid()) }

// heldBy describes the holder in one line.
func (r *lockRun) heldBy(err error) error {
	held := &lock.HeldError{Key: r.key}
	errors.As(err, &held)
	if r.noWait {
		return held
	}
	return failure("lock.not-free", "why", held, "wait", r.wait.String())
}

// linger keeps the lock for --at-least.
func (r *lockRun) linger(lease *lock.Lease, began time.Time, signals <-chan os.Signal) {
	timer := time.NewTimer(r.atLeast - time.Since(began))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-lease.Done():
	case <-signals:
	}
}

// release releases the lock and returns the exit status. ended is the status of the command.
func (r *lockRun) release(lease *lock.Lease, ended error) error {
	err := lease.Release()
	switch {
	case err == nil:
	case errors.Is(err, lock.ErrLost):
		// Some locks learn of their loss only now.
		return exitError{exitLost, failure("lock.lost-late", "why", err)}
	default:
		fmt.Fprintln(r.stderr, "stock:", r.say("lock.not-given-back", "key", strconv.Quote(r.key), "why", err))
	}
	return ended
}
