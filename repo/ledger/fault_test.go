package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/ledger"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// proxiedDesks are a ledger behind a proxy, and the same without it.
func proxiedDesks(t *testing.T, name string) (p proxy, broken, sound desk) {
	t.Helper()
	p, through, direct := repotest.Proxied(t, name)
	return p, deskOn(t, through), deskOn(t, direct)
}

// A step whose connection breaks in the middle is unknown only if the server had all it needed; it is written as a
// whole or not at all; and the same step with the same key tells.
func TestLedgerConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		store, word string
		fault       wire.Action
		err         error
		written     bool
	}{
		{"redis", "evalsha", wire.Cut, lock.ErrDown, false}, // what is read
		{"redis", "evalsha", wire.CutReply, lock.ErrDown, false},
		{"redis", "evalsha", wire.HoldReply, lock.ErrDown, false},
		{"redis", "XADD", wire.Cut, service.ErrOutcomeUnknown, false},
		{"redis", "XADD", wire.CutReply, service.ErrOutcomeUnknown, true},
		{"redis", "XADD", wire.HoldReply, service.ErrOutcomeUnknown, true},
		{"mysql", "START TRANSACTION", wire.CutReply, nil, true}, // nothing was done, so it is done again
		{"mysql", "START TRANSACTION", wire.HoldReply, lock.ErrDown, false},
		{"mysql", "FOR UPDATE", wire.Hold, lock.ErrDown, false},
		{"mysql", "COMMIT", wire.Cut, service.ErrOutcomeUnknown, false},
		{"mysql", "COMMIT", wire.CutReply, service.ErrOutcomeUnknown, true},
		{"mysql", "COMMIT", wire.HoldReply, service.ErrOutcomeUnknown, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", row.store, row.word, row.fault), func(t *testing.T) {
			t.Parallel()
			p, broken, sound := proxiedDesks(t, row.store)
			sku := stocked(t, broken, newSKU("ledger-breaks"), 10) // loads the scripts and opens the connection
			ordered(t, broken, "ann", line(sku, 1))
			p.Once(row.fault, row.word)
			ctx, cancel := repotest.Meeting(t, row.fault)
			defer cancel()
			id := newID()
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
			_, _, err := broken.Step(ctx, about, place(id, "ann", line(sku, 3)))
			if !errors.Is(err, row.err) || errors.Is(err, lock.ErrDown) != (row.err == lock.ErrDown) ||
				errors.Is(err, service.ErrOutcomeUnknown) != (row.err == service.ErrOutcomeUnknown) {
				t.Errorf("error %v, want %v", err, row.err)
			}
			reply, replayed, err := sound.Step(short(t), about, place(newID(), "ann", line(sku, 3)))
			if err != nil || replayed != row.written || strings.Contains(string(reply), id) != row.written {
				t.Errorf("the same again: %s, replayed %v, %v", reply, replayed, err)
			}
			if _, err := sound.Order(short(t), id); errors.Is(err, orders.ErrNotFound) == row.written {
				t.Errorf("the order: %v", err)
			}
			level(t, sound, sku, 6, 0, 4)
			step(t, broken, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, 1))
		})
	}
}

// A repeat of what was sold is not told that all is sold out, if its key cannot be looked for.
func TestLedgerKeyIsNotFoundOut(t *testing.T) {
	t.Parallel()
	p, broken, sound := proxiedDesks(t, "mysql")
	sku := stocked(t, broken, newSKU("ledger-key-cut"), 1)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	decide := place(newID(), "ann", line(sku, 1))
	want := step(t, broken, about, decide)
	fresh := about
	fresh.Key = keyed("1")
	for _, about := range []orders.About{about, fresh} {
		for _, fault := range []wire.Action{wire.Cut, wire.HoldReply} {
			p.Once(fault, "FROM idempotency_keys")
			ctx, cancel := repotest.Meeting(t, fault)
			defer cancel()
			_, _, err := broken.Step(ctx, about, decide)
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("fault %d: %v, want the backend down", fault, err)
			}
		}
	}
	for _, d := range []desk{broken, sound} {
		reply, replayed, err := d.Step(short(t), about, decide)
		if err != nil || !replayed || string(reply) != string(want) {
			t.Errorf("%s, %v, %v", reply, replayed, err)
		}
	}
}

// The time of a step is that of the server behind the lock: what waited for the row is later than what it waited for.
func TestLedgerTimeIsBehindTheLock(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	db := openMySQL(t, dsn)
	d := deskOn(t, repo.NewMySQL(openMySQL(t, dsn)))
	sku := stocked(t, d, newSKU("ledger-time"), 10)
	holder := db.Begin()
	var quantity int
	if err := holder.Raw("SELECT quantity FROM stock WHERE sku = ? FOR UPDATE", sku).Scan(&quantity).Error; err != nil {
		t.Fatal(err)
	}
	told := make(chan time.Time, 1)
	var all sync.WaitGroup
	all.Go(func() {
		about := orders.About{SKUs: []service.SKU{sku}}
		_, _, err := d.Step(t.Context(), about, func(s orders.State) (orders.Changes, error) {
			told <- s.Now
			return orders.Changes{}, nil
		})
		if err != nil {
			t.Error(err)
			told <- time.Time{}
		}
	})
	statementWaits(t, dsn, "%FROM stock%FOR UPDATE%")
	time.Sleep(20 * time.Millisecond) // what the server tells is to be later by this
	var end time.Time
	if err := holder.Raw("SELECT UTC_TIMESTAMP(6)").Row().Scan(&end); err != nil {
		t.Fatal(err)
	}
	if err := holder.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if now := <-told; now.Before(end) {
		t.Errorf("the step is of %v, %v before it had the row", now, end.Sub(now))
	}
}

// A write that arrives after its client has given up, and was told by another step with the same key, does nothing.
func TestLedgerWriteArrivesLate(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	p := newProxy(t, server.Addr(), wire.Redis())
	broken := deskOn(t, repo.NewRedis(dialRedis(t, p.Addr())))
	sound := deskOn(t, repo.NewRedis(dialRedis(t, server.Addr())))
	for name, meanwhile := range map[string]func(sku service.SKU, about orders.About){
		"after the same step": func(sku service.SKU, about orders.About) {
			step(t, sound, about, place(newID(), "ann", line(sku, 1)))
		},
		"after another": func(sku service.SKU, _ orders.About) { ordered(t, sound, "ann", line(sku, 1)) },
		"after the limit was set": func(sku service.SKU, _ orders.About) {
			if err := sound.SetPolicy(short(t), sku, 1); err != nil {
				t.Error(err)
			}
			server.SetTime(time.Now())
			ordered(t, sound, "bob", line(sku, 1))
		},
		"after a long time": func(sku service.SKU, about orders.About) {
			about.Key = orders.Key{}
			refuses(t, sound, about, orders.ErrShort, place(newID(), "ann", line(sku, 11)))
			server.SetTime(time.Now().Add(11 * time.Second))
			ordered(t, sound, "ann", line(sku+"-2", 1))
		},
	} {
		server.SetTime(time.Now())
		sku := stocked(t, sound, newSKU("ledger-late"), 10)
		stocked(t, sound, sku+"-2", 10)
		ordered(t, broken, "bob", line(sku+"-2", 1)) // loads the scripts
		snare := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("XADD"), Do: wire.Hold})
		about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
		for sent := false; !sent; { // a busy computer may not come so far that it sends the write
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, _, err := broken.Step(ctx, about, place(newID(), "ann", line(sku, 1)))
			cancel()
			select {
			case <-snare.Sprung():
				sent = true
			default:
			}
			if sent != errors.Is(err, service.ErrOutcomeUnknown) {
				t.Fatalf("%s: %v of a write that was sent: %t", name, err, sent)
			}
		}
		meanwhile(sku, about)
		before := balances(t, sound, sku)
		count := p.Count(wire.ToClient)
		snare.Release()
		for end := time.Now().Add(200 * time.Millisecond); p.Count(wire.ToClient) == count && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if got := balances(t, sound, sku); got != before {
			t.Errorf("%s: the late write made %+v of %+v", name, got, before)
		}
	}
}

// Three instances, each with its own queues and connections, do not starve each other.
func TestLedgerInstances(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var instances []desk
			dsn, addr := "", ""
			if name == "mysql" {
				dsn = sharedMySQL(t)
			} else {
				addr = repotest.Servers.Redis(t).Addr
			}
			for range 3 {
				if name == "mysql" {
					instances = append(instances, deskOn(t, repo.NewMySQL(openMySQL(t, dsn))))
				} else {
					instances = append(instances, deskOn(t, repo.NewRedis(dialRedis(t, addr))))
				}
			}
			sku := stocked(t, instances[0], newSKU("ledger-instances"), 1000)
			var all sync.WaitGroup
			for i := range 30 {
				all.Go(func() {
					for range 5 {
						about := orders.About{SKUs: []service.SKU{sku}, Customer: fmt.Sprint("c", i), Key: keyed("1")}
						sell := place(newID(), about.Customer, line(sku, 1))
						_, replayed, err := instances[i%3].Step(short(t), about, sell)
						for errors.Is(err, lock.ErrDown) && t.Context().Err() == nil { // a busy server may be late
							_, replayed, err = instances[i%3].Step(short(t), about, sell)
						}
						if err != nil || replayed {
							t.Errorf("replayed %v, %v", replayed, err)
						}
					}
				})
			}
			all.Wait()
			level(t, instances[0], sku, 850, 0, 150)
		})
	}
}

// Under a storm of broken connections every answer is true, and the books balance.
func TestLedgerStorm(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, broken, sound := proxiedDesks(t, name)
			sku := stocked(t, sound, newSKU("ledger-storm"), 10_000)
			ordered(t, broken, "ann", line(sku, 1))
			for n := range 20 {
				p.Set(wire.Trap{On: wire.ToServer, Skip: 14 * n, Do: wire.CutReply})
				p.Set(wire.Trap{On: wire.ToServer, Skip: 14*n + 7, Do: wire.Cut})
			}
			var mu sync.Mutex
			counts := map[string]int{}
			sold := int64(1)
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					for range 5 {
						about := orders.About{SKUs: []service.SKU{sku}, Customer: fmt.Sprint("c", i), Key: keyed("1")}
						sell := func(d desk) (bool, error) {
							_, replayed, err := d.Step(short(t), about, place(newID(), about.Customer, line(sku, 1)))
							return replayed, err
						}
						replayed, err := sell(broken)
						what := "accepted"
						switch {
						case replayed:
							t.Error("a first try was replayed")
						case errors.Is(err, service.ErrOutcomeUnknown):
							what = "unknown"
						case errors.Is(err, lock.ErrDown):
							what = "down"
						case err != nil:
							t.Error(err)
						}
						replayed, err = sell(sound)
						if err != nil || what == "accepted" && !replayed || what == "down" && replayed {
							t.Errorf("after %s: replayed %v, %v", what, replayed, err)
						}
						mu.Lock()
						counts[what]++
						sold++
						mu.Unlock()
					}
				})
			}
			all.Wait()
			level(t, sound, sku, 10_000-sold, 0, sold)
			if counts["accepted"] == 0 || counts["unknown"]+counts["down"] == 0 {
				t.Errorf("the storm proves nothing: %v", counts)
			}
			t.Log(counts)
		})
	}
}

// A ledger whose server is gone says so within seconds, and works again when the server does.
func TestLedgerOutage(t *testing.T) {
	t.Parallel()
	for _, kind := range []stack.Kind{stack.Redis, stack.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := stacktest.Server(t, kind)
			var d desk
			if kind == stack.Redis {
				d = deskOn(t, repo.NewRedis(dialRedis(t, server.Addr)))
			} else {
				d = deskOn(t, repo.NewMySQL(migrated(t, server.URL)))
			}
			sku := stocked(t, d, "outage", 100)
			id := ordered(t, d, "ann", line(sku, 1))
			allDown := func() {
				t.Helper()
				about := orders.About{SKUs: []service.SKU{sku}, Key: keyed("1")}
				var all sync.WaitGroup
				for what, op := range map[string]func(context.Context) error{
					"Step": func(ctx context.Context) error {
						_, _, err := d.Step(ctx, about, adjust(sku, 1))
						return err
					},
					"Order": func(ctx context.Context) error { _, err := d.Order(ctx, id); return err },
					"Orders": func(ctx context.Context) error {
						_, _, err := d.Orders(ctx, "ann", "", 1)
						return err
					},
					"Level":     func(ctx context.Context) error { _, err := d.Level(ctx, sku); return err },
					"Movements": func(ctx context.Context) error { _, err := d.Movements(ctx, sku, 0, 1); return err },
					"SetPolicy": func(ctx context.Context) error { return d.SetPolicy(ctx, sku, 1) },
					"Due":       func(ctx context.Context) error { _, err := d.Due(ctx, 0, 1); return err },
					"Behind": func(ctx context.Context) error {
						_, err := d.outbox().Behind(ctx, "", 1)
						return err
					},
					"Delivered": func(ctx context.Context) error {
						return d.outbox().Delivered(ctx, orders.Delivered{SKU: sku}, 1)
					},
				} {
					all.Go(func() { down(t, what, op, lock.ErrDown) }) // most of them wait for the same answer
				}
				all.Wait()
			}
			backAgain := func() {
				t.Helper()
				stacktest.Eventually(t, repotest.Patience, "a step", func() (bool, string) {
					about := orders.About{SKUs: []service.SKU{sku}, Create: true} // Redis forgets when it is stopped
					_, _, err := d.Step(short(t), about, adjust(sku, 1))
					return err == nil, fmt.Sprint(err)
				})
				balances(t, d, sku)
			}
			if err := server.Pause(); err != nil {
				t.Fatal(err)
			}
			allDown()
			if err := server.Resume(); err != nil {
				t.Fatal(err)
			}
			backAgain()
			if err := server.Stop(); err != nil {
				t.Fatal(err)
			}
			allDown()
			if err := server.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			backAgain()
		})
	}
}

// The round trips that the docstrings promise.
func TestLedgerRoundTrips(t *testing.T) {
	t.Parallel()
	for name, trips := range map[string]struct{ order, cart, replay, refusal, confirm, adjust int }{
		"redis": {order: 2, cart: 2, replay: 1, refusal: 1, confirm: 3, adjust: 2},
		"mysql": {order: 2, cart: 2, replay: 5, refusal: 3, confirm: 3, adjust: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, d, _ := proxiedDesks(t, name)
			sku := stocked(t, d, newSKU("ledger-trips"), 100)
			other := stocked(t, d, sku+"-2", 100)
			ordered(t, d, "ann", line(sku, 1))
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
			reserved := held(t, d, "ann", time.Minute, line(sku, 1))
			for _, row := range []struct {
				what string
				want int
				op   func()
			}{
				{"order", trips.order, func() { step(t, d, about, place(newID(), "ann", line(sku, 1))) }},
				{"replay", trips.replay, func() {
					_, _, _ = d.Step(short(t), about, place(newID(), "ann", line(sku, 1)))
				}},
				{"cart", trips.cart, func() {
					about.SKUs, about.Key = []service.SKU{sku, other}, keyed("1")
					step(t, d, about, place(newID(), "ann", line(sku, 1), line(other, 1)))
				}},
				{"refusal", trips.refusal, func() {
					about.Key = keyed("1")
					_, _, _ = d.Step(short(t), about, place(newID(), "ann", line(sku, 1000)))
				}},
				{"confirm", trips.confirm, func() {
					step(t, d, orders.About{Reservation: reserved, Key: keyed("1")}, end(orders.Confirmed, newID()))
				}},
				{"adjust", trips.adjust, func() {
					step(t, d, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, 1))
				}},
			} {
				if got := p.Trips(row.op); got != row.want {
					t.Errorf("%s: %d round trips, want %d", row.what, got, row.want)
				}
			}
		})
	}
}

// A key is forgotten when it is old enough, and not before.
func TestLedgerForget(t *testing.T) {
	t.Parallel()
	db := openMySQL(t, database(t))
	d := deskOn(t, repo.NewMySQL(db))
	sku := stocked(t, d, "sku", 100)
	about := orders.About{SKUs: []service.SKU{sku}}
	var keys []orders.Key
	for range 5 {
		about.Key = keyed("1")
		keys = append(keys, about.Key)
		step(t, d, about, adjust(sku, 1))
	}
	const age = "UPDATE idempotency_keys SET created_at = created_at - INTERVAL 1 DAY WHERE id <> ?"
	err := db.Exec(age, keys[4].ID).Error
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{3, 1, 0} {
		if n, err := d.Forget(short(t), time.Hour, 3); n != want || err != nil {
			t.Errorf("forgot %d, %v; want %d", n, err, want)
		}
	}
	for i, key := range keys {
		about.Key = key
		if _, replayed, err := d.Step(short(t), about, adjust(sku, 1)); replayed != (i == 4) || err != nil {
			t.Errorf("key %d: replayed %v, %v", i, replayed, err)
		}
	}
	if _, err := d.Forget(short(t), time.Hour, 0); invalid(err) != repotest.ErrInvalid {
		t.Errorf("limit 0: %v", err)
	}
}

// A server's clock may be hours away from those of the instances: keys are remembered by the server's.
func TestLedgerForgetsByTheClockOfTheServer(t *testing.T) {
	t.Parallel()
	for _, away := range []time.Duration{-2 * time.Hour, 2 * time.Hour} {
		t.Run(away.String(), func(t *testing.T) {
			t.Parallel()
			dsn := database(t)
			// In these sessions the clock stands still there, but for SYSDATE, by which the ledger writes.
			clock := time.Now().Add(away).Truncate(time.Second).UTC()
			db := openMySQL(t, fmt.Sprint(dsn, "?timestamp=", clock.Unix()))
			m := repo.NewMySQL(db)
			keyIsOld := func(minutes int) {
				t.Helper()
				const age = "UPDATE idempotency_keys SET created_at = UTC_TIMESTAMP(6) - INTERVAL ? MINUTE"
				if err := db.Exec(age, minutes).Error; err != nil {
					t.Fatal(err)
				}
			}
			if now, err := m.Now(short(t)); err != nil || !now.Equal(clock) {
				t.Fatalf("the server's clock says %v, %v, want %v", now, err, clock)
			}
			sweeps := &forgetter{Store: ledger.NewMySQL(m), forgot: make(chan int, 100)}
			s := orders.New(orders.Config{Store: sweeps, Needs: alwaysUp{}, Work: time.Minute, KeepKey: time.Hour})
			if _, _, err := s.Set(t.Context(), "", "book", 10, service.Condition{}); err != nil {
				t.Fatal(err)
			}
			lines := []orders.Line{{SKU: "book", Quantity: 1}}
			place := func(replays bool) {
				t.Helper()
				if _, replayed, err := s.Place(t.Context(), "k", "ann", lines); err != nil || replayed != replays {
					t.Errorf("replayed %v, %v, want %v", replayed, err, replays)
				}
			}
			sweep := func() (forgot int) {
				ctx, cancel := context.WithCancel(t.Context())
				var sweeping sync.WaitGroup
				defer sweeping.Wait()
				defer cancel()
				sweeping.Go(func() { s.Sweep(ctx) })
				return <-sweeps.forgot
			}
			place(false)
			for _, minutes := range []int{0, 59} {
				keyIsOld(minutes)
				if n := sweep(); n != 0 {
					t.Errorf("forgot %d keys that are %d minutes old", n, minutes)
				}
			}
			place(true)
			keyIsOld(61)
			if n := sweep(); n != 1 {
				t.Errorf("forgot %d keys, want the one that is an hour old", n)
			}
			if level, err := ledger.NewMySQL(m).Level(short(t), "book"); err != nil || level.Sold != 1 {
				t.Errorf("%+v, %v, want one unit sold", level, err)
			}
		})
	}
}

// A forgetter tells how many keys were forgotten.
type forgetter struct {
	orders.Store
	forgot chan int
}

func (f *forgetter) Forget(ctx context.Context, age time.Duration, limit int) (int, error) {
	n, err := f.Store.Forget(ctx, age, limit)
	if err != nil {
		n = -1
	}
	f.forgot <- n
	return n, err
}

// alwaysUp is a server that is never known to be down.
type alwaysUp struct{}

func (alwaysUp) Err() error          { return nil }
func (alwaysUp) Up() context.Context { return context.Background() }

// Redis forgets a key of the ledger by itself, after the time that the setting says.
func TestLedgerKeysExpire(t *testing.T) {
	t.Parallel()
	c := dialRedis(t, repotest.Servers.Redis(t).Addr)
	for want, r := range map[time.Duration]*repo.Redis{
		service.KeepKeys: repo.NewRedis(c), time.Hour: repo.NewRedis(c).KeepKeysFor(time.Hour),
	} {
		d := deskOn(t, r)
		about := orders.About{SKUs: []service.SKU{stocked(t, d, newSKU("ledger-expire"), 100)}, Key: keyed("1")}
		step(t, d, about, adjust(about.SKUs[0], 1))
		if left := c.PTTL(t.Context(), "ledger:key:"+about.Key.ID).Val(); left > want || left < want-time.Minute {
			t.Errorf("it is kept for %v, want %v", left, want)
		}
	}
}

// Damaged keys make a step fail as a whole.
func TestLedgerDamaged(t *testing.T) {
	t.Parallel()
	c := dialRedis(t, repotest.Servers.Redis(t).Addr)
	d := deskOn(t, repo.NewRedis(c))
	for name, damage := range map[string]func(sku service.SKU) error{
		"movements lost": func(sku service.SKU) error {
			return c.Del(t.Context(), "stock:{"+string(sku)+"}:movements").Err()
		},
		"a movement too many": func(sku service.SKU) error {
			stream := "stock:{" + string(sku) + "}:movements"
			args := &redis.XAddArgs{Stream: stream, ID: "2-0", Values: []any{"m", "{}"}}
			return c.XAdd(t.Context(), args).Err()
		},
		"movements of another type": func(sku service.SKU) error {
			key := "stock:{" + string(sku) + "}:movements"
			return errors.Join(c.Del(t.Context(), key).Err(), c.Set(t.Context(), key, "x", 0).Err())
		},
		"customers of another type": func(sku service.SKU) error {
			return c.Set(t.Context(), "stock:{"+string(sku)+"}:customers", "x", 0).Err()
		},
		"the customer's orders of another type": func(sku service.SKU) error {
			return c.Set(t.Context(), "ledger:customer:"+string(sku), "x", 0).Err()
		},
	} {
		sku := stocked(t, d, newSKU("ledger-damaged"), 100)
		if err := damage(sku); err != nil {
			t.Fatal(err)
		}
		about := orders.About{SKUs: []service.SKU{sku}, Customer: string(sku)}
		id := newID()
		if _, _, err := d.Step(short(t), about, place(id, string(sku), line(sku, 1))); err == nil {
			t.Errorf("%s: written", name)
		}
		if _, err := d.Order(short(t), id); !errors.Is(err, orders.ErrNotFound) {
			t.Errorf("%s: the order: %v", name, err)
		}
		if s := mustRead(t, d.shop(), sku); s.Quantity != 100 || s.Version != 2 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// The MySQL server itself refuses a row that breaks the law, whoever writes it.
func TestLedgerLawIsTheServers(t *testing.T) {
	t.Parallel()
	db := openMySQL(t, database(t))
	d := deskOn(t, repo.NewMySQL(db))
	sku := stocked(t, d, "sku", 100)
	ordered(t, d, "ann", line(sku, 10))
	for _, set := range []string{
		"quantity = quantity + 1", "reserved = -1, quantity = quantity + 1", "sold = 0", "adjusted = adjusted + 1",
		"sold = -1, quantity = 101",
	} {
		if err := db.Exec("UPDATE stock SET " + set + " WHERE sku = 'sku'").Error; err == nil {
			t.Errorf("the server lets %s happen", set)
		}
	}
	level(t, d, sku, 90, 0, 10)
}

// A Redis Cluster is refused before anything is asked of it.
func TestLedgerRefusesACluster(t *testing.T) {
	t.Parallel()
	c := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, IsClusterMode: true})
	t.Cleanup(func() { _ = c.Close() })
	if _, err := ledger.NewRedis(repo.NewRedis(c)); !errors.Is(err, errors.ErrUnsupported) ||
		!strings.Contains(err.Error(), "Cluster") {
		t.Errorf("%v", err)
	}
	s := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:1"}, MasterName: "m"})
	t.Cleanup(func() { _ = s.Close() })
	if _, err := ledger.NewRedis(repo.NewRedis(s)); err != nil {
		t.Errorf("Sentinel: %v", err)
	}
}
