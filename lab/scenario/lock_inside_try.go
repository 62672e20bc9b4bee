package scenario

import (
	"errors"

	"example.com/stock/lab"
)

var errBusyLock = errors.New("busy: try again later")

// lockInsideTry calls unlock in a finally block that also runs if lock has failed.
func lockInsideTry() lab.Scenario {
	return lab.Scenario{
		Name: "lock-inside-try", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "finally-deletes-the-key"),
			byHand("naive", lab.Refuses, "finally-compares-the-owner"),
			byHand("fixed", lab.Safe, "locks-before-try"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			a := newNaiveLock(b, "A", longLease)
			second, third := newNaiveLock(b, "B", longLease), newNaiveLock(b, "C", longLease)
			a.mustTake()
			err := buyOnce(b, second)
			b.Evidence(lab.Answer, nil, "was-told", "who", "B", "answer", err)
			if third.takes() {
				b.Evidence(lab.Hold, nil, "third-is-let-in-beside-a")
				return bothSell(b, "A", "C")
			}
			a.gives()
			if !errors.Is(err, errBusyLock) { // a caller comes again only if it is told that the lock was busy
				b.Note("B", "gives-up")
				return lab.Refuses
			}
			b.Require(buyOnce(b, second) == nil, "B gets the lock on its second try")
			b.Evidence(lab.Answer, nil, "got-the-lock")
			return lab.Safe
		},
	}
}

// buyOnce is the code around the lock, with defer for finally.
func buyOnce(b *lab.Testbed, l *naiveLock) (err error) {
	unlock := func() {
		if b.Case.Variant == "finally-deletes-the-key" {
			b.Must("DEL", l.redis.Del(b.Ctx, l.key).Err())
			b.Statement("B", "redis", "DEL")
			return
		}
		n, e := l.redis.Eval(b.Ctx, compareAndDelete, []string{l.key}, l.token).Int()
		b.Must("EVAL", e)
		if n == 0 {
			err = errNotLocked // as an exception in finally replaces the one that is under way
		}
	}
	lock := func() error {
		if !l.takes() {
			return errBusyLock
		}
		return nil
	}
	if b.Case.Code == "fixed" {
		if err := lock(); err != nil {
			return err
		}
		defer unlock()
		return nil
	}
	defer unlock()
	return lock()
}
