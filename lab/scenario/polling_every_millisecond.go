package scenario

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/stock/lab"
)

// pollingCosts counts the commands that waiters send while another has the lock.
func pollingCosts() lab.Scenario {
	return lab.Scenario{
		Name: "polling-every-millisecond", Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Repeats, "asks-every-millisecond"),
			byHand("fixed", lab.Safe, "waits-for-a-message"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code == "fixed" {
				return waitForMessages(b)
			}
			const waiters, enough = 10, 1000
			a := newNaiveLock(b, "A", longLease)
			a.mustTake()
			before := calls(b, "set")
			patient, stop := context.WithCancel(b.Ctx)
			defer stop()
			for i := range waiters {
				l := newNaiveLock(b, fmt.Sprintf("B%d", i+1), longLease)
				b.Go(func(context.Context) {
					for patient.Err() == nil {
						if ok, err := l.try(patient); ok || err != nil {
							return
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			b.Eventually("the waiters have asked often", func() bool { return calls(b, "set")-before >= enough })
			b.Evidence(lab.Served, nil, "asked-in-vain", "waiters", waiters, "commands", enough)
			stop()
			a.gives()
			return lab.Repeats
		},
	}
}

// waitForMessages has a list with a token for the lock. Redis keeps the waiters in a queue (BLPOP), and gives the token
// to the first one.
func waitForMessages(b *lab.Testbed) lab.Outcome {
	const waiters = 10
	c, before, turns := b.Redis(), calls(b, "blpop"), make(chan error, waiters)
	for range waiters {
		b.Go(func(ctx context.Context) {
			err := c.BLPop(ctx, lab.Patience, b.SKU).Err()
			if err == nil {
				err = c.RPush(ctx, b.SKU, "token").Err()
			}
			turns <- err
		})
	}
	b.Eventually("all wait in the queue", func() bool {
		list, err := c.ClientList(b.Ctx).Result()
		b.Must("CLIENT LIST", err)
		return strings.Count(list, "cmd=blpop") >= waiters
	})
	b.Must("RPUSH", c.RPush(b.Ctx, b.SKU, "token").Err())
	b.Event(unlockOf("A"), "unlock")
	for range waiters {
		b.Must("a turn", <-turns)
	}
	sent := calls(b, "blpop") - before
	b.Evidence(lab.Served, sent, "asked-once-each", "waiters", waiters, "commands", sent)
	b.Require(sent == waiters, "each waiter sends one command")
	return lab.Safe
}

// calls returns how many commands of that name Redis has executed.
func calls(b *lab.Testbed, command string) (n int) {
	info, err := b.Redis().Info(b.Ctx, "commandstats").Result()
	b.Must("INFO", err)
	if _, rest, ok := strings.Cut(info, "cmdstat_"+command+":calls="); ok {
		_, err = fmt.Sscan(strings.SplitN(rest, ",", 2)[0], &n)
		b.Must("INFO", err)
	}
	return n
}
