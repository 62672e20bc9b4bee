package scenario

import (
	"slices"
	"strings"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The variants of two callers who lock one SKU under two keys, or are prevented from doing so.
const (
	asTyped        = "the-sku-as-it-was-typed"
	perInstance    = "the-instance-in-the-key"
	fromTheRow     = "the-sku-as-the-row-has-it"
	inCapitals     = "the-sku-in-capitals"
	anotherOnesKey = "through-another-strategy"
)

func differentKeys() lab.Scenario {
	return lab.Scenario{
		Name: "different-keys-for-one-sku", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Oversells, asTyped),
				byHand("naive", lab.Oversells, perInstance),
				byHand("fixed", lab.Safe, fromTheRow),
			},
			on("mysql", lab.Stated(lab.Refuses, inCapitals, "redis-setnx", "redis-watchdog", "zk-sequential",
				"mysql-table", "mysql-get-lock")),
			lab.Stated(lab.Refuses, anotherOnesKey, "none", "local-mutex", "redis-setnx", "redis-watchdog",
				"zk-sequential", "mysql-table", "mysql-get-lock"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			switch b.Case.Variant {
			case inCapitals:
				return asksInCapitals(b)
			case anotherOnesKey:
				return asksAnotherLock(b)
			}
			return keyedNaively(b)
		},
	}
}

// keyedNaively makes A buy "sku" and B buy "SKU" on another instance. In MariaDB both are the same row, because its
// default collations ignore case.
func keyedNaively(b *lab.Testbed) lab.Outcome {
	shop := newNaiveShop(b, 1)
	key := func(who, typed string) string {
		switch b.Case.Variant {
		case perInstance:
			typed = "instance-of-" + who + ":sku"
		case fromTheRow:
			row := shop.db.QueryRowContext(b.Ctx, "SELECT sku FROM stock WHERE sku = ?", typed)
			b.Must("SELECT sku", row.Scan(&typed))
		}
		return b.SKU + ":" + typed
	}
	lock := func(who, typed string) *naiveLock {
		l := newNaiveLock(b, who, longLease)
		l.key = key(who, typed)
		return l
	}
	sale := func(who, typed string) *naiveSale {
		s := shop.begin(who, "READ COMMITTED")
		s.sku = typed
		s.read("")
		return s
	}
	end := func(s *naiveSale, l *naiveLock) {
		s.write()
		s.commit()
		l.gives()
	}
	first, second := lock("A", "sku"), lock("B", "SKU")
	first.mustTake()
	a := sale("A", "sku")
	inside := second.takes()
	b.Evidence(lab.Hold, []string{first.key, second.key}, "keys-of-two", "a", first.key, "b", second.key,
		"inside", inside)
	if !inside {
		end(a, first)
		second.mustTake()
		end(sale("B", "SKU"), second)
		return shop.verdict()
	}
	other := sale("B", "SKU")
	end(a, first)
	end(other, second)
	return shop.verdict()
}

// asksInCapitals makes B ask for A's SKU in capital letters while A is in the critical section.
func asksInCapitals(b *lab.Testbed) lab.Outcome {
	apps := b.Apps(2)
	b.Stock(1)
	a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
	capitals := strings.ToUpper(b.SKU)
	other := b.Begin(apps[1], "B", lab.Request{SKU: capitals, Pause: []string{lab.BeforeWrite}, Wait: lab.Once()})
	inside := other.PausedOrAnswered(lab.BeforeWrite)
	a.Go().Reply()
	if inside {
		other.Go()
	}
	return keptApart(b, other, "unknown_sku")
}

// asksAnotherLock makes B sell A's SKU under another strategy. The two locks have different keys, even different
// servers, so both are in the critical section at once.
func asksAnotherLock(b *lab.Testbed) lab.Outcome {
	another := "redis-setnx"
	if b.Case.Strategy == another {
		another = "redis-watchdog"
	}
	apps := b.Apps(2)
	b.Stock(1)
	r := lab.Request{Pause: []string{lab.BeforeWrite}}
	a := b.Begin(apps[0], "A", r).Paused(lab.BeforeWrite)
	r.Strategy = another
	other := b.Begin(apps[1], "B", r).Paused(lab.BeforeWrite)
	b.Evidence(lab.Hold, another, "inside-by-another", "strategy", another)
	a.Go().Reply()
	other.Go()
	return keptApart(b, other, "strategy_mismatch")
}

// keptApart judges that B was refused with a problem, and that A sold.
func keptApart(b *lab.Testbed, other *lab.Call, problem string) lab.Outcome {
	reply := other.Reply()
	if b.Judge().Lost() {
		return lab.Oversells
	}
	b.Require(b.Calls()[0].Reply().Outcome == loadtest.Accepted, "A sells")
	b.Require(reply.Problem == problem, "B is told "+problem)
	return lab.Refuses
}
