package lab

import (
	"context"
	"time"
)

func abba() Scenario {
	return Scenario{
		Name: "two-skus-in-two-orders", Group: MySQL,
		Title: Text{"A cart of two SKUs, locked in two orders (ABBA)", "两个 SKU 的购物车，加锁顺序相反（ABBA）"},
		Setup: Text{
			"Two SKUs; A buys 1 and 2, B buys 2 and 1. Once with row locks of MariaDB, once with two right locks in Redis.",
			"两个 SKU；A 依次买 1、2，B 依次买 2、1。一次用 MariaDB 行锁，一次用 Redis 里两把正确的锁。",
		},
		Forced: Text{
			"A locks its first, B locks its first, A asks for its second and waits, B asks for its second. The mended code sorts the SKUs first.",
			"A 锁住自己的第一个，B 锁住自己的第一个；A 请求第二个并等待，B 请求第二个。改正后的代码先给 SKU 排序。",
		},
		Why: Text{
			"Each waits for what the other holds. A database sees the circle and ends one of the two, error 1213. Redis and ZooKeeper see two keys and two patient clients; the circle lasts until a wait or a lease ends.",
			"两者互等对方所持。数据库能看出这个环并终止其中一个（错误 1213）。Redis、ZooKeeper 只看到两个键和两个耐心的客户端，这个环要持续到等待或租约结束。",
		},
		Fix: Text{
			"One order for all: sort the keys before locking. And roll back and repeat on 1213, which may come all the same.",
			"统一顺序：加锁前先排序。另外遇到 1213 要回滚并重试——它仍可能出现。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Code: "naive", Variant: "row locks", Want: Forecast{Outcome: Aborts}},
			{Code: "mended", Variant: "row locks, sorted", Want: Forecast{Outcome: Safe}},
			{Code: "naive", Variant: "Redis locks", Want: Forecast{Outcome: Blocks}},
			{Code: "mended", Variant: "Redis locks, sorted", Want: Forecast{Outcome: Safe}},
		},
		Run: func(b *Bench) Observation {
			switch b.Case.Variant {
			case "row locks", "row locks, sorted":
				return abbaRows(b, b.Case.Code == "mended")
			default:
				return abbaKeys(b, b.Case.Code == "mended")
			}
		},
	}
}

func abbaRows(b *Bench, sorted bool) Observation {
	db := b.DB()
	b.Exec("mysql", db, "CREATE TABLE stock (sku INT PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
	b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 10), (2, 10)")
	const take = "UPDATE stock SET quantity = quantity - 1 WHERE sku = ?"
	a, other := b.session(db, "A"), b.session(db, "B")
	a.do("BEGIN")
	other.do("BEGIN")
	a.do(take, 1)
	if sorted {
		waits := other.beside(take, 1)
		other.waiting(db)
		a.do(take, 2)
		a.do("COMMIT")
		b.Must("B: "+take, <-waits)
		other.do(take, 2)
		other.do("COMMIT")
	} else {
		other.do(take, 2)
		waits := a.beside(take, 2)
		a.waiting(db)
		err := other.try(take, 1)
		first := <-waits
		aborted := max(errno(err), errno(first))
		b.must(aborted == errDeadlock && (err == nil) != (first == nil), "one of the two, and only one, is ended with 1213")
		b.Evidence(Answer, aborted, "one of the two was told: error %d, and all its work is undone", aborted)
		for _, s := range []*session{a, other} {
			s.do("COMMIT") // of the one that was ended: there is nothing to commit
		}
	}
	left := b.Int("mysql", db, "SELECT SUM(quantity) FROM stock")
	b.Evidence(Balance, left, "of 20 units %d are left", left)
	if left == 18 {
		return Observation{Outcome: Aborts}
	}
	b.must(left == 16, "both carts were sold")
	return Observation{Outcome: Safe}
}

// abbaKeys holds locks that are not renewed and outlive every wait: that nobody gets in is not for lack of patience.
func abbaKeys(b *Bench, sorted bool) Observation {
	key := func(n string) string { return b.SKU + "-" + n }
	type cart struct {
		who           string
		first, second *naiveLock
	}
	carts := []*cart{
		{"A", newNaiveLock(b.Redis(), key("1"), 2*patience), newNaiveLock(b.Redis(), key("2"), 2*patience)},
		{"B", newNaiveLock(b.Redis(), key("2"), 2*patience), newNaiveLock(b.Redis(), key("1"), 2*patience)},
	}
	if sorted {
		carts[1].first, carts[1].second = carts[1].second, carts[1].first
	}
	enough := 2 * time.Second
	if sorted {
		enough = patience
	}
	ctx, stop := context.WithTimeout(b.Ctx, enough)
	defer stop()
	got, err := carts[0].first.lock(ctx)
	b.Must("A locks its first", err)
	b.must(got, "A gets its first")
	b.Note("A", "locked %s", carts[0].first.key)
	if sorted {
		got, err = carts[1].first.try(ctx)
		b.Must("B tries its first", err)
		b.must(!got, "B is kept out at its first key")
	} else {
		got, err = carts[1].first.lock(ctx)
		b.Must("B locks its first", err)
		b.must(got, "B gets its first")
		b.Note("B", "locked %s", carts[1].first.key)
	}
	inside := make(chan bool, 2)
	for i, c := range carts {
		b.Go(func(context.Context) {
			both := true
			if sorted && i == 1 {
				both, _ = c.first.lock(ctx)
			}
			if both {
				both, _ = c.second.lock(ctx)
			}
			b.Note(c.who, "has both: %t", both)
			if both {
				_ = c.second.unlock(b.Ctx)
				_ = c.first.unlock(b.Ctx)
			}
			inside <- both
		})
	}
	served := 0
	for range carts {
		if <-inside {
			served++
		}
	}
	b.Evidence(Answer, served, "%d of 2 carts were served", served)
	if served == 0 {
		b.Evidence(Served, nil, "redis: both keys are held, and neither of them ends for %v", b.TTL(key("1")).Round(time.Second))
		return Observation{Outcome: Blocks}
	}
	b.must(served == 2, "both carts are served")
	return Observation{Outcome: Safe}
}
