package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

const (
	powerUnits = 50 // in stock at the beginning
	powerEarly = 3  // sold before the system writes everything back
	powerBurst = 10 // sold since the last sync when the power is cut, if the server lets that happen
	powerTries = 8  // to find such a moment
)

// A durability is a setting of a server, by the name of its variant.
type durability struct {
	variant string
	kind    stack.Kind
	more    []string
	keeps   bool // everything that was acknowledged
}

func durabilities() []durability {
	return []durability{
		{"flush-log-1", stack.MySQL, []string{"--innodb-flush-log-at-trx-commit=1"}, true},
		{"flush-log-2", stack.MySQL, []string{"--innodb-flush-log-at-trx-commit=2"}, false},
		{"flush-log-0", stack.MySQL, []string{"--innodb-flush-log-at-trx-commit=0"}, false},
		{"appendfsync-always", stack.Redis, []string{"--appendfsync", "always"}, true},
		{"appendfsync-everysec", stack.Redis, []string{"--appendfsync", "everysec"}, false},
		{"appendfsync-no", stack.Redis, []string{"--appendfsync", "no"}, false},
		{"force-sync-yes", stack.ZooKeeper, []string{"forceSync=yes"}, true},
		{"force-sync-no", stack.ZooKeeper, []string{"forceSync=no"}, false},
	}
}

// powerCut cuts the power of one server, with its files on a file system that keeps what was synced.
func powerCut() lab.Scenario {
	var cases []lab.Case
	for _, d := range durabilities() {
		// A strategy has no number that only grows, and does not notice a loss of its last sales; the ledger does. A
		// lock that is lost leaves the fence and the version in the store.
		atomic, orders, locked := lab.Oversells, lab.Refuses, lab.Refuses
		if d.keeps {
			atomic, orders, locked = lab.Safe, lab.Safe, lab.Safe
		}
		if d.kind == stack.ZooKeeper {
			cases = append(cases, lab.Stated(locked, d.variant, "zk-sequential")...)
			continue
		}
		store := string(d.kind)
		cases = append(cases, on(store, lab.Stated(atomic, d.variant, "atomic"))...)
		cases = append(cases, lab.Case{
			Code: lab.OrderService, Store: store, Variant: d.variant, Want: lab.Forecast{Outcome: orders},
		})
	}
	return lab.Scenario{
		Name: "power-cut", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedZooKeeper, lab.NeedPowerCuts},
		Cases: cases,
		Run: func(b *lab.Testbed) lab.Observation {
			all := durabilities()
			d := all[slices.IndexFunc(all, func(d durability) bool { return d.variant == b.Case.Variant })]
			o := stack.Options{AOF: true, PowerCuts: true, More: map[stack.Kind][]string{d.kind: d.more}}
			if d.kind == stack.ZooKeeper {
				b.Fresh(o, lab.NeedRedis, lab.NeedZooKeeper)
				return lockServerLosesPower(b)
			}
			b.Fresh(o, lab.NeedRedis, lab.NeedMySQL)
			return storeLosesPower(b)
		},
	}
}

// A till sells single units of the case's SKU through one instance, by the case's strategy or the order service.
type till struct {
	b    *lab.Testbed
	app  *lab.App
	shop *lab.Shop // nil: a strategy
	told int       // how many customers were told of a sale
}

func openTill(b *lab.Testbed) *till {
	if b.Case.Code == lab.OrderService {
		s := b.Shop(1)
		s.Stock("", powerUnits)
		return &till{b: b, app: s.Apps[0], shop: s}
	}
	app := b.Apps(1)[0]
	b.Stock(powerUnits)
	return &till{b: b, app: app}
}

// sell serves up to n customers, and returns how many bought, and what the last of the others was told.
func (t *till) sell(who string, n int) (bought int, problem string) {
	if t.shop == nil {
		crowd := t.b.BeginCrowd(t.app, who, n, lab.Request{})
		for told, customers := range crowd.Count() {
			if told == string(loadtest.Accepted) {
				bought = customers
			} else {
				problem = told
			}
		}
		t.told += bought
		return bought, problem
	}
	for ; bought < n; bought++ {
		v := t.shop.Ask(t.app, who, lab.Buy(one()))
		if !v.Bought() {
			return bought, v.Reply().Problem
		}
		t.told++
	}
	return bought, ""
}

// stock reads how many units are sold according to the store, and returns the problem if that fails.
func (t *till) stock() (sold int, problem string) {
	var err error
	if t.shop != nil {
		err = t.shop.Reads()
	} else {
		var s loadtest.Stock
		s, err = t.app.Stock(t.b.Ctx, t.b.Store(), t.b.SKU)
		sold = int(s.Sold)
	}
	if p, refused := errors.AsType[*loadtest.Problem](err); refused {
		return 0, p.Name()
	} else if err != nil {
		return 0, err.Error()
	}
	return sold, ""
}

// awaitLog waits until MariaDB has synced what it has committed. With the settings 0 and 2 it does that once a second.
func awaitLog(b *lab.Testbed) {
	db := b.OpenDB("")
	read := func(name string) (lsn uint64) {
		b.Must("read "+name, db.QueryRowContext(b.Ctx,
			"SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = ?", name).Scan(&lsn))
		return lsn
	}
	committed := read("INNODB_LSN_CURRENT")
	b.Eventually("MariaDB has synced its log", func() bool { return read("INNODB_LSN_FLUSHED") >= committed })
}

// sellUnsynced calls sell, which sells n units, until nothing was synced during a call. At that moment it pauses the
// server, and returns n: these sales will be lost for certain. It returns 0 if there is no such moment, because the
// server syncs before it replies.
func sellUnsynced(b *lab.Testbed, server *stack.Server, sell func(n int)) int {
	n := powerBurst
	for range powerTries {
		before := server.Disk.Syncs()
		sell(n)
		b.Must("pause "+server.Name, server.Pause())
		if server.Disk.Syncs() == before {
			return n
		}
		b.Must("resume "+server.Name, server.Resume())
		n = max(n/2, 2) // a busy computer sells slowly, and some servers sync each second
	}
	return 0
}

// cutPower cuts the power of a server, and starts it again. unsynced is how many sales have not been synced.
func cutPower(b *lab.Testbed, server *stack.Server, unsynced int) {
	if unsynced > 0 {
		b.Evidence(lab.Served, unsynced, "synced-nothing-since", "server", server.Name, "n", unsynced)
	} else {
		b.Evidence(lab.Served, unsynced, "synced-in-every-try", "server", server.Name, "tries", powerTries)
	}
	b.Must("cut the power of "+server.Name, server.PowerCut())
	b.Note(server.Name, "power-is-cut", "server", server.Name)
	b.Must("restart "+server.Name, server.Restart(b.Ctx))
}

func storeLosesPower(b *lab.Testbed) lab.Observation {
	server := b.Server(lab.Need(b.Store()))
	t := openTill(b)
	early, _ := t.sell("early", powerEarly)
	b.Require(early == powerEarly, "the early customers are served")
	if b.Store() == string(stack.MySQL) {
		awaitLog(b)
	}
	server.Disk.Sync()
	b.Note(server.Name, "writes-everything-back")
	unsynced := sellUnsynced(b, server, func(n int) {
		bought, problem := t.sell("burst", n)
		b.Require(bought == n, "all is well before the power is cut: "+problem)
	})
	b.Evidence(lab.Answer, t.told, "acknowledged-before-the-cut", "told", t.told)
	cutPower(b, server, unsynced)

	b.Eventually("the instance has the store again", func() bool {
		_, problem := t.stock()
		return problem == "" || problem == "data_lost"
	})
	before := t.told
	var sold int
	if t.shop == nil {
		sold, _ = t.stock()
	}
	after, problem := t.sell("late", powerUnits)
	noticed := problem == "data_lost"
	if noticed {
		b.Evidence(lab.Answer, problem, "the-loss-is-noticed", "answer", problem)
	} else {
		b.Evidence(lab.Answer, problem, "no-loss-is-noticed", "sold", after, "answer", problem)
	}
	if t.shop != nil {
		if noticed {
			t.shop.Stock("", 0) // as an operator does; then the ledger can be read
		}
		sold = int(t.shop.Sold()) - after
	}
	b.Evidence(lab.Balance, before-sold, "lost-by-the-cut", "told", before, "sold", sold, "lost", before-sold)
	b.Evidence(lab.Balance, t.told, "told-in-all", "initial", powerUnits, "told", t.told)
	switch {
	case t.told > powerUnits:
		return lab.Oversells.Seen()
	case noticed:
		return lab.Refuses.Seen()
	}
	b.Require(before == sold && t.told == powerUnits, "everything is sold once")
	return lab.Safe.Seen()
}

// lockServerLosesPower cuts the power of ZooKeeper while A holds the lock, in code that does not notice the loss of its
// lease. The stock is in Redis, which loses nothing.
func lockServerLosesPower(b *lab.Testbed) lab.Observation {
	server := b.Server(lab.NeedZooKeeper)
	apps := b.Apps(2, "STOCK_ZOOKEEPER_SESSION_TIMEOUT=30s")
	b.Stock(powerUnits)
	customers := 0
	ask := func(app *lab.App, who string, r lab.Request) (reply loadtest.Reply) {
		// An instance that says that it is ready may not have noticed yet that its session, or its connection, is gone.
		b.Eventually(who+" gets an answer", func() bool {
			reply = b.Sell(app, who, r)
			return reply.Problem != "backend_down"
		})
		return reply
	}
	sell := func(app *lab.App) loadtest.Reply {
		customers++
		return ask(app, fmt.Sprintf("customer %d", customers), lab.Request{})
	}
	b.Require(sell(apps[0]).Outcome == loadtest.Accepted, "the first customer is served")
	server.Disk.Sync()
	b.Note(server.Name, "writes-everything-back")
	var a *lab.Call
	holders := 0
	unsynced := sellUnsynced(b, server, func(n int) {
		if a != nil {
			a.Go().Reply()
		}
		for range n {
			b.Require(sell(apps[0]).Outcome == loadtest.Accepted, "all is well before the power is cut")
		}
		holders++
		a = b.BeginPaused(apps[0], fmt.Sprint("A", holders), lab.BeforeWrite, lab.Request{IgnoreLoss: true})
	})
	cutPower(b, server, unsynced)
	from := time.Now()
	b.AwaitReady(apps)
	b.Evidence(lab.Waited, time.Since(from), "has-sessions-again", "after", time.Since(from))

	other := ask(apps[1], "B", lab.Request{Wait: lab.Once()})
	b.Evidence(lab.Answer, other.Problem, "asks-for-a-lock-that-is-held", "holder", a.Who, "answer", lab.Told(other))
	late := a.Go().Reply()
	stale := 0
	for n := range powerBurst {
		if reply := sell(apps[n%len(apps)]); reply.Problem == "stale_fence" {
			stale++
		} else {
			b.Require(reply.Outcome == loadtest.Accepted, "a customer buys, or the fence is stale: "+reply.Problem)
		}
	}
	b.Evidence(lab.Fence, stale, "refused-as-stale", "n", stale, "of", powerBurst)
	switch {
	case b.Judge().Lost():
		return lab.Oversells.Seen()
	case late.Outcome == loadtest.Accepted && other.Outcome == loadtest.Busy && stale == 0:
		return lab.Safe.Seen()
	}
	return lab.Refuses.Seen()
}
