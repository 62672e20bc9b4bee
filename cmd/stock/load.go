package main

import (
	"github.com/spf13/cobra"
)

const loadLong = `Load sets the stock of one or several SKUs, sends deductions to a running service, and judges from the replies
and from the orders in the store whether stock was lost.

Without --rate it is a closed loop: workers start at the same moment (or within --ramp-up), and each sends its
next request when it has the reply to the last one. Latencies are service times.

With --rate it is an open loop: requests are sent when they are due, whether or not the service keeps up, and
their latencies count from then, also if this program was late. What is due while --max-in-flight requests are
under way is dropped. Late and dropped requests are counted, and you are warned if they were more than 1 %.

Ctrl-C ends the run early, and what was done is judged all the same.

Exit status, the first that applies:
    1  wrong usage, or an internal error
    2  the target cannot be reached, refuses, or is not a stock service
  130  interrupted
    3  the strategy broke its promise; with --must-race also: one without a promise lost nothing
    5  an expectation (--expect) is not met
    4  the run could not be judged: nothing was sold, or the final state could not be read
    0  the strategy did what it promises ("none" promises nothing), and all expectations are met`

const loadExample = `  # 3000 requests from 30 workers for 100 units, under the ZooKeeper lock
  stock load --strategy zk-sequential -c 30 -n 3000 --stock 100

  # the race: no lock at all; exit status 3 if it does not show
  stock load --strategy none --must-race

  # all strategies that the target can run now, in one table
  stock load --strategies all -n 600 --stock 500

  # customers come at a rate that rises from 100 to 2000 a second, most of them for one of 20 SKUs
  stock load -s atomic --rate 100..2000 --duration 30s --warm-up 5s --skus 20 --skew hot:0.8 --quantity 1..5

  # what must be true of it; exit status 5 if it is not
  stock load -s redis-watchdog --expect 'oversold==0' --expect 'p99<50ms' --expect 'busy<5%'

  # one try for the lock, on MySQL, with all replies in a file
  stock load --strategy redis-setnx --wait 0s --store mysql --history run.jsonl`

func loadCommand() *cobra.Command {
	var f loadFlags
	cmd := &cobra.Command{
		Use:     "load --strategy NAME[,NAME...]|all",
		Short:   "Put load on a running service, and judge whether stock was lost",
		Long:    loadLong,
		Example: loadExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := f.read(cmd.Flags())
			if err == nil {
				err = f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return explainLoad(err, f.token != "")
		},
	}
	f.add(cmd.Flags())
	return cmd
}
