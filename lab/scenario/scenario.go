// Package scenario is the catalogue of the fault lab. Each failure has a file, with the code that is often written
// wrong, the fixed code, and a case for each strategy. The texts of a scenario are in text/en.yaml and text/zh.yaml,
// under its name.
//
// To add one: a file named like the scenario, a line in All, and its texts in both languages.
package scenario

import (
	"embed"
	"errors"
	"slices"
	"sync"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

//go:embed text
var textFiles embed.FS

// All returns the catalogue, in teaching order. The error names the texts that are missing.
func All() ([]lab.Scenario, error) {
	list, err := catalogue()
	return slices.Clone(list), err
}

var catalogue = sync.OnceValues(func() ([]lab.Scenario, error) {
	texts, err := words.ReadTexts(textFiles, "text")
	if err != nil {
		return nil, err
	}
	list := []lab.Scenario{
		noLock(),
		localMutex(),
		unlockBeforeCommit(),
		snapshotBeforeLock(),
		laggingReplica(),
		differentKeys(),
		duplicateRequest(),
		storeComesBackEmpty(),
		saleAcrossFailOver(),
		triedOnce(),
		crashBetween(),
		leaseInSeconds(),
		leaseShorterThanWork(),
		deleteAnothersLock(),
		threadID(),
		getThenDel(),
		reEntryCount(),
		lockInsideTry(),
		unlockFromACallback(),
		lostReplyOnAcquire(),
		releaseCancelled(),
		failOver(),
		locksFlushed(),
		clientClockInExpiry(),
		holderFrozen(),
		pausedWaiter(),
		hungHolder(),
		watchdogOutlives(),
		holderKilled(),
		redlockClockJump(),
		redlockRestart(),
		redlockSlowQuorum(),
		redlockMinorityLeft(),
		redlockPauseAfterCheck(),
		zkNodeTypes(),
		zkWatches(),
		zkStaleRead(),
		zkSessionExpiry(),
		zkSuspended(),
		zkOrphan(),
		zkTimedOutWaiter(),
		oldNodeAdopted(),
		clientMadeTwice(),
		everyErrorIsBusy(),
		latchAfterExists(),
		existsWatch(),
		herd(),
		transactionIsNoLock(),
		forUpdateWithoutIndex(),
		forUpdateFindsNoRow(),
		abba(),
		lockWaitHalfDone(),
		commitUnknown(),
		batchUnknown(),
		oneOfABatch(),
		rowsAffected(),
		releaseAfterLoss(),
		getLockOnAPool(),
		poolExhaustion(),
		retryStorm(),
		starvation(),
		pollingCosts(),
		waitByTheWallClock(),
		fourContenders(),
		oneLockForAll(),
		selfDeadlock(),
		retryAfterALostReply(),
		confirmRacesExpiry(),
		paymentAfterExpiry(),
		cartHalfSold(),
		limitRaced(),
		stockInRedis(),
		relayKilled(),
		twoRelays(),
		poisonEvent(),
		severalWritersSell(),
		lockOnTwoNodes(),
		staleReadOfANode(),
		twoPacketSale(),
	}
	var missing []error
	for i := range list {
		missing = append(missing, list[i].Describe(texts))
	}
	return list, errors.Join(missing...)
})

// Find returns the scenarios of those names, or all for no name. The error for an unknown name lists all names.
func Find(names ...string) ([]lab.Scenario, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	return lab.Find(all, func(s lab.Scenario) string { return s.Name }, names...)
}

// on sets the store of each case.
func on(store string, cases []lab.Case) []lab.Case {
	for i := range cases {
		if cases[i].Strategy != "" {
			cases[i].Store = store
		}
	}
	return cases
}

// byHand returns a case of the lab's own code.
func byHand(name string, want lab.Outcome, variant string) lab.Case {
	return lab.Case{Code: name, Variant: variant, Want: lab.Forecast{Outcome: want}}
}

// within returns the case of a strategy that delays others for at most d, and byHandWithin of the lab's own code.
func within(d time.Duration, strategy, variant string) lab.Case {
	return lab.Case{Strategy: strategy, Variant: variant, Want: lab.Forecast{Outcome: lab.Delays, Within: d}}
}

func byHandWithin(d time.Duration, name, variant string) lab.Case {
	return lab.Case{Code: name, Variant: variant, Want: lab.Forecast{Outcome: lab.Delays, Within: d}}
}

// onBoth returns the cases of a strategy on Redis and on MySQL.
func onBoth(o lab.Outcome, variant, strategy string) []lab.Case {
	return append(on("redis", lab.Stated(o, variant, strategy)), on("mysql", lab.Stated(o, variant, strategy))...)
}

// seenAsking calls begin, and returns when a request for the lock has passed p.
func seenAsking(b *lab.Testbed, p *wire.Proxy, begin func()) {
	key := lockKey(b.Case.Strategy, b.SKU)
	asked := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: wire.Contains(key)})
	begin()
	b.Sprung(asked, "asks-for-the-lock")
	asked.Release()
}

// lockKey returns the Redis key of a lock of the service.
func lockKey(strategy, sku string) string {
	prefix := map[string]string{
		"redis-setnx": "lock", "redis-setnx-del": "setnx-del", "redis-setnx-expire": "setnx-expire",
		"redis-setnx-watch": "setnx-watch", "redis-rlock": "rlock", "redis-watchdog": "watchdog",
	}[strategy]
	return prefix + ":{" + sku + "}"
}
