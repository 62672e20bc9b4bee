package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

func pausedWaiter() lab.Scenario {
	return lab.Scenario{
		Name: "paused-waiter", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Oversells, "takes-any-grant")},
			lab.Stated(lab.Safe, "", "redis-watchdog", "zk-sequential"),
			lab.Stated(lab.Aborts, "", "mysql-get-lock")),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code == "naive" {
				return grantNaively(b)
			}
			env := []string{"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s", "STOCK_LOCK_HANDOVER=false"}
			apps := b.Apps(2, env...)
			b.Stock(3)
			b.Watch(apps[1])
			c := b.BeginPaused(apps[1], "C", lab.BeforeWrite, lab.Request{})
			a := b.Begin(apps[0], "A", lab.Request{Wait: lab.For(lab.Patience)})
			b.Eventually("A waits", func() bool { return b.Waiting(apps[1]) == 1 })
			frozen := time.Now()
			thaw := b.Freeze(apps[0])
			c.Go().Reply()
			other := b.Begin(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience), Pause: []string{lab.BeforeWrite}}).
				Paused(lab.BeforeWrite)
			took := time.Since(frozen)
			b.Evidence(lab.Waited, took, "let-in-after-freeze", "after", took)
			thaw()
			b.Eventually("A waits again", func() bool { return a.Answered() || b.Waiting(apps[1]) == 1 })
			select { // time for A to read the messages that it missed and act on them
			case <-b.Ctx.Done():
			case <-time.After(3 * time.Second):
			}
			other.Go()
			late, served := a.Reply(), other.Reply().Outcome == loadtest.Accepted
			switch j := b.Judge(); {
			case j.Lost():
				return lab.Oversells
			case !served || late.Problem == "stale_fence" || late.Problem == "lock_lost":
				return lab.Refuses // two had the lock, and the store noticed
			case late.Problem == "backend_down":
				return lab.Aborts // the wait ended with its session or connection
			}
			b.Require(late.Outcome == loadtest.Accepted, "A is served")
			return lab.Safe
		},
	}
}

// A naiveQueue is a lock that is handed to the next waiter by a message, which has neither a deadline nor a fencing
// token.
type naiveQueue struct {
	b    *lab.Testbed
	c    *redis.Client
	key  string
	term time.Duration // lease of a lock that was handed over and not confirmed
}

// enter takes the lock if it is free, and otherwise joins the queue. It reports whether it took the lock.
func (q *naiveQueue) enter(who string) bool {
	ok, err := q.c.SetNX(q.b.Ctx, q.key, who, longLease).Result()
	q.b.Must("SET NX", err)
	if !ok {
		q.b.Must("RPUSH", q.c.RPush(q.b.Ctx, q.key+"-queue", who).Err())
	}
	q.b.Statement(who, "redis", fmt.Sprintf("SET NX: %t", ok))
	return ok
}

// leave hands the lock to the waiter at the head of the queue.
func (q *naiveQueue) leave(who string) {
	next, err := q.c.LPop(q.b.Ctx, q.key+"-queue").Result()
	q.b.Must("LPOP", err)
	q.b.Must("SET", q.c.Set(q.b.Ctx, q.key, next, q.term).Err())
	q.b.Must("PUBLISH", q.c.Publish(q.b.Ctx, q.key+"-"+next, "granted").Err())
	q.b.Note(who, "grants", "who", next)
}

// grantNaively hands the lock to A while A reads no messages, as if frozen. Then A resumes.
func grantNaively(b *lab.Testbed) lab.Outcome {
	q := &naiveQueue{b, b.Redis(), b.SKU, time.Second}
	b.Require(q.enter("C"), "C gets the lock")
	mail := q.c.Subscribe(b.Ctx, q.key+"-A")
	b.Defer(func() { _ = mail.Close() })
	_, err := mail.Receive(b.Ctx)
	b.Must("SUBSCRIBE", err)
	b.Require(!q.enter("A"), "A waits")
	away := time.Now()
	q.leave("C")
	b.Eventually("the grant runs out", func() bool { return errors.Is(q.c.Get(b.Ctx, q.key).Err(), redis.Nil) })
	b.Require(q.enter("B"), "B gets the lock")
	b.Interval("A", lab.Fault, "", away, "reads-no-message", "for", time.Since(away))
	b.Require(!q.enter("A"), "A asks again, and waits")
	soon, cancel := context.WithTimeout(b.Ctx, 3*time.Second)
	defer cancel()
	_, err = mail.ReceiveMessage(soon)
	holder, _ := q.c.Get(b.Ctx, q.key).Result()
	believes, has := err == nil, holder == "B"
	b.Must("DEL", q.c.Del(b.Ctx, q.key+"-queue").Err())
	return bothHold(b, []bool{believes, has}, believes, has)
}
