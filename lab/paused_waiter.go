package lab

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
)

func pausedWaiter() Scenario {
	return Scenario{
		Name: "paused-waiter", Group: SetNX,
		Title: Text{"A waiter is frozen past its grant", "等待者被冻结，错过了授予给它的锁"},
		Setup: Text{
			"Three units in stock; C holds the lock, A waits for it. Who is granted the lock and does not confirm that keeps it for " +
				"4 s (Redis), for the session of 4 s (ZooKeeper), or for 10 s (MySQL); in the naive code for 1 s.",
			"库存 3 件；C 持有锁，A 在等待。锁授予之后若无人确认：Redis 保留 4 秒，ZooKeeper 保留到 4 秒的会话结束，" +
				"MySQL 保留 10 秒；幼稚代码为 1 秒。",
		},
		Forced: Text{
			"A's process is frozen (SIGSTOP) while it waits. C lets go, and the server grants the lock to A, who does not hear of " +
				"it. The grant runs out, and B is let in. A wakes up: it asks again, and finds the message of before.",
			"A 在等待时整个进程被冻结（SIGSTOP）。C 释放锁，服务器把锁授予 A，A 却听不到。授予过期，B 进入。" +
				"A 醒来：它再次请求，同时收到了先前的那条消息。",
		},
		Why: Text{
			"A message says what was true when it was sent. A waiter that has asked again since, and looks only at whether its name " +
				"is in the message, takes the old grant for the answer to the new question: two hold the lock, and the later one " +
				"has the smaller fence.",
			"消息说的是它发出那一刻的事实。若等待者此后又问过一次，却只看消息里有没有自己的名字，就会把旧的授予当成新问题的答复：" +
				"两个人同时持有锁，后来者的 fence 反而更小。",
		},
		Fix: Text{
			"Number the questions. A grant names the one that it answers, and counts for that one alone, for as long as it lives, " +
				"counted from before the question was sent; who is late asks the server whose the lock is. Where the wait belongs " +
				"to a session or a connection, it ends with that, and the customer is told. The fence stops what slips through.",
			"给每次请求编号。授予要写明它答复的是哪一次，只对那一次有效，有效期从请求发出之前算起；来晚了就去问服务器锁归谁。" +
				"等待若依附于会话或连接，就随之结束，并告知客户。漏网的由栅栏令牌拦住。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL},
		Cases: concat(
			[]Case{{Code: "naive", Variant: "takes any grant", Want: Forecast{Outcome: Oversells}}},
			stated(Safe, "", "redis-watchdog"), stated(Aborts, "", "zk-sequential", "mysql-get-lock")),
		Run: func(b *Bench) Observation {
			if b.Case.Code == "naive" {
				return grantNaively(b)
			}
			env := []string{"STOCK_ZOOKEEPER_SESSION_TIMEOUT=4s", "STOCK_LOCK_HANDOVER=false"}
			apps := b.Apps(2, env...)
			b.Stock(3)
			b.Watch(apps[1])
			c := b.Begin(apps[1], "C", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			a := b.Begin(apps[0], "A", Ask{Wait: For(patience)})
			b.Eventually("A waits", func() bool { return b.waiting(apps[1]) == 1 })
			frozen := time.Now()
			thaw := b.Freeze(apps[0])
			c.Go().Reply()
			other := b.Begin(apps[1], "B", Ask{Wait: For(patience), Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
			took := time.Since(frozen)
			b.Evidence(Waited, ms(took), "B was let in %v after A was frozen", took.Round(time.Millisecond))
			thaw()
			b.Eventually("A waits again", func() bool { return a.Answered() || b.waiting(apps[1]) == 1 })
			select { // it has heard of everything, and would take what it must not
			case <-b.Ctx.Done():
			case <-time.After(3 * time.Second):
			}
			other.Go()
			late, served := a.Reply(), other.Reply().Outcome == loadtest.Accepted
			switch j := b.Judge(); {
			case j.Lost():
				return Observation{Outcome: Oversells}
			case !served || late.Problem == "stale_fence" || late.Problem == "lock_lost":
				return Observation{Outcome: Refuses} // two had the lock, and the store has seen it
			case late.Problem == "backend_down":
				return Observation{Outcome: Aborts} // its session or connection was ended, and with it the wait
			}
			b.must(late.Outcome == loadtest.Accepted, "A is served")
			return Observation{Outcome: Safe}
		},
	}
}

// A naiveQueue is a lock that is granted to who waits, by a message that says nothing but that.
type naiveQueue struct {
	b    *Bench
	c    *redis.Client
	key  string
	term time.Duration // of a grant that nobody confirms
}

// enter takes the lock if it is free, and otherwise stands in the queue.
func (q *naiveQueue) enter(who string) bool {
	ok, err := q.c.SetNX(q.b.Ctx, q.key, who, 2*patience).Result()
	q.b.Must("SET NX", err)
	if !ok {
		q.b.Must("RPUSH", q.c.RPush(q.b.Ctx, q.key+"-queue", who).Err())
	}
	q.b.Note(who, "SET NX: %t", ok)
	return ok
}

// leave grants the lock to whoever has waited for longest.
func (q *naiveQueue) leave(who string) {
	next, err := q.c.LPop(q.b.Ctx, q.key+"-queue").Result()
	q.b.Must("LPOP", err)
	q.b.Must("SET", q.c.Set(q.b.Ctx, q.key, next, q.term).Err())
	q.b.Must("PUBLISH", q.c.Publish(q.b.Ctx, q.key+"-"+next, "granted").Err())
	q.b.Note(who, "grants the lock to %s", next)
}

// grantNaively has A read no message while it is granted the lock, as if it were frozen, and then go on.
func grantNaively(b *Bench) Observation {
	q := &naiveQueue{b, b.Redis(), b.SKU, time.Second}
	b.must(q.enter("C"), "C gets the lock")
	mail := q.c.Subscribe(b.Ctx, q.key+"-A")
	b.Defer(func() { _ = mail.Close() })
	_, err := mail.Receive(b.Ctx)
	b.Must("SUBSCRIBE", err)
	b.must(!q.enter("A"), "A waits")
	away := time.Now()
	q.leave("C")
	b.Eventually("the grant runs out", func() bool { return errors.Is(q.c.Get(b.Ctx, q.key).Err(), redis.Nil) })
	b.must(q.enter("B"), "B gets the lock")
	b.Interval("A", Fault, "", away, "A reads no message for %v", time.Since(away).Round(time.Millisecond))
	b.must(!q.enter("A"), "A asks again, and waits")
	soon, cancel := context.WithTimeout(b.Ctx, 3*time.Second)
	defer cancel()
	_, err = mail.ReceiveMessage(soon)
	holder, _ := q.c.Get(b.Ctx, q.key).Result()
	believes, has := err == nil, holder == "B"
	b.Evidence(Hold, []bool{believes, has}, "A believes that it has the lock: %t; B has it: %t", believes, has)
	b.Must("DEL", q.c.Del(b.Ctx, q.key+"-queue").Err())
	if believes && has {
		return bothSell(b, "A", "B")
	}
	return Observation{Outcome: Safe}
}
