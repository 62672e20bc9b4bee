package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/service"
)

// The statuses of "stock lock" itself, as in sysexits.h where that has one. Every other is the command's.
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

// What the environment of the command says. They do not begin with STOCK_, which is for settings: a stock in the command would refuse them.
const (
	envStrategy = "LOCK_STRATEGY"
	envKey      = "LOCK_KEY"
	envFence    = "LOCK_FENCE"
)

func lockCommand() *cobra.Command {
	var r lockRun
	var config *pflag.FlagSet
	cmd := &cobra.Command{
		Use:   "lock <strategy> <key> [--wait 10s | --no-wait] -- command [argument ...]",
		Short: "Run a command under a lock, on one machine at a time",
		Long: `Run a command under a lock that holds across machines, like flock(1) or "consul lock".

It talks to the lock's server itself; no "stock serve" need run. Without --wait and --no-wait it waits for as long as it takes.
A key that is a SKU is the lock of its sales: while the command runs under the same strategy, nobody sells that SKU.

The command gets LOCK_STRATEGY, LOCK_KEY and LOCK_FENCE in its environment. The fence is a number that grows from holder to
holder (0: the strategy has none). Let whatever the command writes to refuse a number smaller than one it has seen: a machine
that froze and wakes up does not know yet that its lock is lost.

When the lock is lost (server gone, evicted, time over) the command gets SIGTERM, and SIGKILL after --kill-after, with everything in
its process group. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on to it. On Linux it is killed if stock itself is killed. On a terminal it
stays in the terminal's process group, so that it can read from it: then signals from the keyboard reach it directly, and
only the command itself is terminated.

The lock is held for as long as the command runs, except by the SETNX family, which does not renew: give
--lock-setnx-lease a time longer than the command can take, or it is terminated then.

Exit status: the command's own, or 128 + the signal that ended it; besides
   64  mistake on the command line or in the configuration
   69  the lock's server cannot be asked
   70  other failure before the command was started
   75  not obtained: another holds the lock, or held it for all of --wait
   76  lost while the command ran, whatever its own status
  126  the command cannot be executed
  127  the command was not found`,
		Example: `  # A task that must run once although every worker starts it: the same line in the crontab of each machine.
  # --at-least keeps the lock longer than clocks differ, so that a late worker does not run it again.
  0 3 * * *  stock lock redis-watchdog nightly-report --no-wait --quiet --at-least 1m -- /usr/local/bin/report

  # One after the other, for ten seconds each at most in the queue.
  stock lock zk-sequential migrate --wait 10s -- ./migrate.sh

  # Who has it, who waits; and to take it away.
  stock lock ls redis-watchdog nightly-report
  stock lock evict redis-watchdog nightly-report --admin-token TOKEN`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch dash := cmd.ArgsLenAtDash(); {
			case dash < 0 && len(args) > 2:
				return exitError{exitUsage, errors.New("put -- before the command: stock lock <strategy> <key> -- command")}
			case dash != 2 || len(args) == 2:
				return exitError{exitUsage, errors.New("want: stock lock <strategy> <key> -- command [argument ...]; see stock lock --help")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, v, err := loadConfig(config)
			if err == nil {
				err = service.CheckKey(args[1])
			}
			if err == nil {
				err = r.check(cmd.Flags(), args[0], args[1])
			}
			if err != nil {
				return exitError{exitUsage, err}
			}
			if v.GetString("instance") == "" {
				// The one that is made up for an instance names the port that it listens on.
				if host, err := os.Hostname(); err == nil {
					cfg.Instance = host
				}
			}
			r.cfg, r.strategy, r.key, r.argv = cfg, args[0], args[1], args[2:]
			r.stdin, r.stdout, r.stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
			return r.run(cmd.Context())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return exitError{exitUsage, err} })
	flags := cmd.Flags()
	flags.DurationVar(&r.wait, "wait", 0, "wait for the lock for so long at most; 0s: try once (default: for as long as it takes)")
	flags.BoolVar(&r.noWait, "no-wait", false, "try once")
	flags.DurationVar(&r.atLeast, "at-least", 0, "keep the lock for so long although the command has ended sooner")
	flags.DurationVar(&r.killAfter, "kill-after", 5*time.Second, "time between SIGTERM and SIGKILL when the lock is lost")
	flags.DurationVar(&r.maxHold, "max-hold", 0, "longest hold of a renewed lock; then it is lost (default: no limit)")
	flags.BoolVarP(&r.quiet, "quiet", "q", false, "do not say that another holds the lock: the exit status does")
	config = addServerFlags(flags)
	flags.Lookup("instance").Usage = "name of this machine, for others who ask (default: host name) (STOCK_INSTANCE)"
	cmd.AddCommand(lockListCommand(), lockEvictCommand())
	return cmd
}

// check refuses what contradicts itself.
func (r *lockRun) check(flags *pflag.FlagSet, strategy, key string) error {
	r.bounded = flags.Changed("wait")
	switch {
	case r.bounded && r.noWait:
		return errors.New("--wait and --no-wait exclude each other")
	case min(r.wait, r.atLeast, r.killAfter, r.maxHold) < 0:
		return errors.New("times must not be negative")
	case os.Getenv(envStrategy) == strategy && os.Getenv(envKey) == key:
		return fmt.Errorf("lock %q is held by the stock lock that runs this command: it would wait for itself", key)
	}
	if r.bounded && r.wait == 0 {
		r.noWait = true
	}
	return nil
}
