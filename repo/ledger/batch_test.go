package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// mergedBooks are books whose steps are made in batches.
type mergedBooks struct {
	books
	merged *orders.Merged
}

func (m mergedBooks) Step(
	ctx context.Context, about orders.About, decide rule,
) (reply []byte, replayed bool, err error) {
	return m.merged.Step(ctx, about, decide)
}

func merged(d desk) desk {
	m := orders.NewMerged(d.books, orders.MergeOptions{Work: 10 * time.Second})
	return desk{mergedBooks{d.books, m}, d.ledger, d.conn}
}

// All that a ledger promises holds for steps that are made in batches.
func TestLedgerMerged(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]desk{"redis": merged(redisDesk(t)), "mysql": merged(mysqlDesk(t))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, clause := range slices.Concat(ledgerClauses, recordClauses, holdClauses) {
				t.Run(clause.name, func(t *testing.T) {
					t.Parallel()
					clause.check(t, d, newSKU("merged-"+clause.name))
					if t.Failed() {
						t.Log("broken:", clause.text)
					}
				})
			}
		})
	}
}

// A tally counts the calls of a sweeper.
type tally struct {
	books
	calls []string
}

func (c *tally) Due(ctx context.Context, skip, limit int) ([]orders.Reservation, error) {
	due, err := c.books.Due(ctx, skip, limit)
	c.calls = append(c.calls, fmt.Sprintf("due %d", len(due)))
	return due, err
}

func (c *tally) Batch(ctx context.Context, steps []orders.Request) []orders.StepResult {
	c.calls = append(c.calls, fmt.Sprintf("step of %d", len(steps)))
	return c.books.Batch(ctx, steps)
}

// A thousand reservations that have expired are given back by four steps of the store, on real repotest.Servers.
func TestAThousandExpire(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) desk{ // of their own: a sweeper ends what others have made
		"redis": func(t testing.TB) desk { return deskOn(t, repo.NewRedis(dialRedis(t, stacktest.Redis(t).Addr))) },
		"mysql": func(t testing.TB) desk { return deskOn(t, repo.NewMySQL(openMySQL(t, database(t)))) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			skus := []service.SKU{newSKU("a"), newSKU("b"), newSKU("c")}
			for _, sku := range skus {
				stocked(t, d, sku, 1000)
			}
			for n := 0; n < 1000; n += 200 {
				var steps []orders.Request
				for i := range 200 {
					cart := []orders.Line{line(skus[i%3], 1)}
					about := orders.About{SKUs: skusOf(cart), Customer: fmt.Sprint("c", i%7)}
					steps = append(steps, orders.Request{
						About: about, Decide: hold(newID(), about.Customer, -time.Second, cart...),
					})
				}
				for _, out := range d.Batch(short(t), steps) {
					if out.Err != nil {
						t.Fatal(out.Err)
					}
				}
			}
			counted := &tally{books: d.books}
			sweeper := orders.New(orders.Config{Store: counted, Needs: noNeed{}, Work: 10 * time.Second})
			ctx, stop := context.WithCancel(t.Context())
			var sweeping sync.WaitGroup
			sweeping.Go(func() { sweeper.Sweep(ctx) })
			stacktest.Eventually(t, repotest.Patience, "all is given back", func() (bool, string) {
				var left int64
				for _, sku := range skus {
					l, err := d.Level(short(t), sku)
					if err != nil {
						t.Error(err)
					}
					left += l.Reserved
				}
				return left == 0, fmt.Sprint(left, " are reserved")
			})
			stop()
			sweeping.Wait()
			want := []string{
				"due 250", "step of 250", "due 250", "step of 250", "due 250", "step of 250", "due 250", "step of 250",
			}
			if len(counted.calls) < len(want) || !slices.Equal(counted.calls[:len(want)], want) {
				t.Errorf("calls %v, want %v", counted.calls, want)
			}
			for _, sku := range skus {
				balances(t, d, sku)
			}
		})
	}
}

// A reservation whose record cannot be read keeps no other from its end, and is counted. When somebody has restored the
// record, the reservation ends, too.
func TestADamagedReservationKeepsNoOther(t *testing.T) {
	t.Parallel()
	redisAddr, dsn := stacktest.Redis(t).Addr, database(t) // of their own: a sweeper ends what others have made
	client, db := dialRedis(t, redisAddr), openMySQL(t, dsn)
	sqlDB, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	execute := func(query string, args ...any) {
		t.Helper()
		if _, err := sqlDB.ExecContext(t.Context(), query, args...); err != nil {
			t.Error(err)
		}
	}
	for name, row := range map[string]struct {
		desk             desk
		damage, recovery func(id string)
	}{
		"redis": {
			deskOn(t, repo.NewRedis(client)),
			func(id string) {
				key := "ledger:reservation:" + id
				client.Rename(t.Context(), key, "aside")
				client.Set(t.Context(), key, "{", 0)
			},
			func(id string) { client.Rename(t.Context(), "aside", "ledger:reservation:"+id) },
		},
		"mysql": {
			deskOn(t, repo.NewMySQL(db)),
			func(id string) { execute("UPDATE reservations SET cart = CONCAT('x', cart) WHERE id = ?", id) },
			func(id string) { execute("UPDATE reservations SET cart = SUBSTRING(cart, 2) WHERE id = ?", id) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, sku := row.desk, stocked(t, row.desk, newSKU("damaged"), 10)
			held(t, d, "ann", -time.Minute, line(sku, 1))
			bad := held(t, d, "ann", -time.Second, line(sku, 2))
			held(t, d, "ann", -time.Millisecond, line(sku, 4))
			row.damage(bad)
			due, err := d.Due(short(t), 0, 10)
			if err != nil || len(due) != 3 || !reflect.DeepEqual(due[1], orders.Reservation{ID: bad}) {
				t.Fatalf("due: %+v, %v", due, err)
			}
			if rest, err := d.Due(short(t), 1, 1); err != nil || len(rest) != 1 || rest[0].ID != bad {
				t.Errorf("without the first: %+v, %v", rest, err)
			}
			if _, err := d.Reservation(short(t), bad); err == nil || errors.Is(err, lock.ErrDown) {
				t.Errorf("reading it: %v, which blames the server", err)
			}
			var overdue atomic.Int64
			sweeper := orders.New(orders.Config{
				Store: d.books, Needs: noNeed{}, Work: 10 * time.Second,
				Swept: func(n int) { overdue.Store(int64(n)) }, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
			})
			ctx, stop := context.WithCancel(t.Context())
			var sweeping sync.WaitGroup
			sweeping.Go(func() { sweeper.Sweep(ctx) })
			reserved := func(want, late int64) func() (bool, string) {
				return func() (bool, string) {
					l, err := d.Level(short(t), sku)
					n := overdue.Load()
					return err == nil && l.Reserved == want && n == late, fmt.Sprint(l, " overdue ", n, " ", err)
				}
			}
			stacktest.Eventually(t, 30*time.Second, "the others end", reserved(2, 1))
			row.recovery(bad)
			stacktest.Eventually(t, 30*time.Second, "all end", reserved(0, 0))
			stop()
			sweeping.Wait()
			balances(t, d, sku)
		})
	}
}

// noNeed is a server that is up.
type noNeed struct{}

func (noNeed) Err() error { return nil }

func (noNeed) Up() context.Context { return context.Background() }

// A try is a random step in two forms: on a SKU and its neighbours, and the same on others.
type try [2]orders.Request

// A tries makes random steps. What those before may have made is known by its number.
type tries struct {
	r    *rand.Rand
	skus [2]service.SKU
	made int
	keys []orders.Key
}

// id is that of the order or reservation that the n-th step makes.
func (g *tries) id(side, n int) string {
	return fmt.Sprintf("%s-%d", g.skus[side], n)
}

func (g *tries) next() (t try) {
	kind, some, n := g.r.IntN(10), g.made, int64(1+g.r.IntN(4))
	if some > 0 {
		some = g.r.IntN(some)
	}
	g.made++
	who := g.r.IntN(3)
	cart := [][]string{{"-a"}, {"-a"}, {"-b"}, {"-a", "-b"}, {"-b", "-none"}, {"-strategy"}}[g.r.IntN(6)]
	key := orders.Key{}
	switch g.r.IntN(4) {
	case 0:
		key = keyed("1")
		g.keys = append(g.keys, key)
	case 1:
		if len(g.keys) > 0 { // the key of an earlier one, sometimes for another request
			key = g.keys[g.r.IntN(len(g.keys))]
			key.Fingerprint = fmt.Sprint(1 + g.r.IntN(3)/2)
		}
	}
	fence := uint64(g.r.IntN(8)) // 0: none
	for side := range t {
		var lines []orders.Line
		for _, of := range cart {
			lines = append(lines, line(g.skus[side]+service.SKU(of), n))
		}
		id, of := g.id(side, g.made), g.id(side, some)
		customer := fmt.Sprint(g.skus[side], "-c", who) // with reservations of one side only
		about := orders.About{SKUs: skusOf(lines), Customer: customer, Key: key}
		if key.ID != "" {
			about.Key.ID = fmt.Sprint(side, key.ID)
		}
		var decide rule
		switch kind {
		case 0, 1, 2:
			decide = place(id, customer, lines...)
		case 3, 4:
			about.Holder, decide = customer, holdWithin(6, 15, id, customer, lines...)
		case 5:
			about.Reservation, decide = of, end(orders.Confirmed, id)
		case 6:
			about.Reservation, decide = of, end(orders.Released, "")
		case 7:
			about.Order, decide = of, giveBack
		case 8:
			about.SKUs, about.Customer = about.SKUs[:1], ""
			decide = adjust(about.SKUs[0], n-2)
		case 9:
			about.Fences = map[service.SKU]uint64{g.skus[side] + "-a": fence}
			decide = place(id, customer, lines...)
		}
		t[side] = orders.Request{About: about, Decide: decide}
	}
	return t
}

var moment = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// told is what a step was told, without what differs between the two sides.
func (g *tries) told(side int, o orders.StepResult) string {
	told := fmt.Sprintf("%s %v %v", o.Reply, o.Replayed, o.Err)
	told = strings.ReplaceAll(told, string(g.skus[side]), "sku")
	return moment.ReplaceAllString(told, "then")
}

// The same steps, one by one and in batches of any size, are told the same and leave the same books.
func TestABatchIsItsStepsOneByOne(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]desk{"redis": redisDesk(t), "mysql": mysqlDesk(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seed := rand.Uint64()
			for round := range uint64(stacktest.Rounds(4, 2)) {
				r := rand.New(rand.NewPCG(seed, round))
				g := &tries{r: r, skus: [2]service.SKU{newSKU("one-by-one"), newSKU("batch")}}
				for _, sku := range g.skus {
					mustSet(t, d.shop(), sku+"-a", 57) // adopted by the first step that moves it
					stocked(t, d, sku+"-b", 60)
					mustSet(t, d.shop(), sku+"-strategy", 7)
					mustWrite(t, d.shop(), sku+"-strategy")
					if err := d.SetPolicy(short(t), sku+"-b", 12); err != nil {
						t.Fatal(err)
					}
				}
				for range stacktest.Rounds(12, 8) {
					var steps []orders.Request
					var want []string
					for range 1 + r.IntN(30) {
						one := g.next()
						a := one[0]
						want = append(want, g.told(0, outcome(d.Step(short(t), a.About, a.Decide))))
						steps = append(steps, one[1])
					}
					for i, step := range steps {
						steps[i].About.SKUs = reached(t, d, step.About)
					}
					for i, got := range d.books.(orders.Batcher).Batch(short(t), steps) {
						if told := g.told(1, got); told != want[i] {
							t.Fatalf("seed %d, round %d, step %d of %d about %+v:\n%s\none by one:\n%s",
								seed, round, i, len(steps), steps[i].About, told, want[i])
						}
					}
				}
				for _, part := range []service.SKU{"-a", "-b"} {
					a, b := g.skus[0]+part, g.skus[1]+part
					if one, other := balances(t, d, a), balances(t, d, b); one != other || one.Number < 5 {
						t.Errorf("seed %d: %+v, one by one %+v", seed, other, one)
					}
					if one, other := mustRead(t, d.shop(), a), mustRead(t, d.shop(), b); one.Version != other.Version ||
						one.Fence != other.Fence {
						t.Errorf("seed %d: %+v, one by one %+v", seed, other, one)
					}
					one, other := journal(t, d, a), journal(t, d, b)
					for i := range one {
						wrote := orders.StepResult{Reply: text(one[i])}
						if x, y := g.told(0, wrote), g.told(1, orders.StepResult{Reply: text(other[i])}); x != y {
							t.Fatalf("seed %d: movement %s, one by one %s", seed, y, x)
						}
					}
				}
			}
		})
	}
}

func outcome(reply []byte, replayed bool, err error) orders.StepResult {
	return orders.StepResult{Reply: reply, Replayed: replayed, Err: err}
}

// mustWrite makes a strategy the guard of a SKU.
func mustWrite(t testing.TB, s shop, sku service.SKU) {
	t.Helper()
	o := order(mustRead(t, s, sku))
	o.Strategy = "none"
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
}

// reached are the SKUs of a step, also those of its order or reservation if that is there yet: a batch makes one that
// it does not know of by itself.
func reached(t testing.TB, d desk, about orders.About) []service.SKU {
	t.Helper()
	skus := slices.Clone(about.SKUs)
	if r, err := d.Reservation(short(t), about.Reservation); err == nil {
		skus = append(skus, skusOf(r.Lines)...)
	}
	if o, err := d.Order(short(t), about.Order); err == nil {
		skus = append(skus, skusOf(o.Lines)...)
	}
	slices.Sort(skus)
	return slices.Compact(skus)
}

// sales are n sales of one unit to as many customers, each with a key.
func sales(sku service.SKU, n int) (steps []orders.Request) {
	for i := range n {
		about := orders.About{SKUs: []service.SKU{sku}, Customer: fmt.Sprint("c", i), Key: keyed("1")}
		steps = append(steps, orders.Request{About: about, Decide: place(newID(), about.Customer, line(sku, 1))})
	}
	return steps
}

// A batch whose connection breaks is unknown for each of its steps only if the server had all it needed. It is written
// as a whole or not at all, and the same steps with the same keys tell.
func TestLedgerBatchConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		store, word string
		fault       wire.Action
		err         error
		written     bool
	}{
		{"redis", "evalsha", wire.CutReply, lock.ErrDown, false}, // what is read
		{"redis", "XADD", wire.Cut, service.ErrOutcomeUnknown, false},
		{"redis", "XADD", wire.CutReply, service.ErrOutcomeUnknown, true},
		{"mysql", "FOR UPDATE", wire.CutReply, nil, true}, // nothing was done, so it is done again
		{"mysql", "FOR UPDATE", wire.HoldReply, lock.ErrDown, false},
		{"mysql", "COMMIT", wire.Cut, service.ErrOutcomeUnknown, false},
		{"mysql", "COMMIT", wire.CutReply, service.ErrOutcomeUnknown, true},
		{"mysql", "COMMIT", wire.HoldReply, service.ErrOutcomeUnknown, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", row.store, row.word, row.fault), func(t *testing.T) {
			t.Parallel()
			p, broken, sound := proxiedDesks(t, row.store)
			sku := stocked(t, broken, newSKU("ledger-batch"), 25) // loads the scripts and opens the connection
			ordered(t, broken, "ann", line(sku, 1))
			p.Once(row.fault, row.word)
			ctx, cancel := repotest.Meeting(t, row.fault)
			defer cancel()
			steps := sales(sku, 30) // of which 24 can be written
			for i, o := range broken.books.(orders.Batcher).Batch(ctx, steps) {
				want := row.err
				if want == nil && i >= 24 {
					want = orders.ErrShort
				}
				if !errors.Is(o.Err, want) || errors.Is(o.Err, lock.ErrDown) != (want == lock.ErrDown) {
					t.Errorf("step %d: %v, want %v", i, o.Err, want)
				}
			}
			for i, s := range steps {
				_, replayed, err := sound.Step(short(t), s.About, s.Decide)
				if replayed != (row.written && i < 24) || (err != nil) != (i >= 24) {
					t.Errorf("step %d again: replayed %v, %v", i, replayed, err)
				}
			}
			level(t, sound, sku, 0, 0, 25)
			step(t, broken, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, 1))
		})
	}
}

// InnoDB may end a batch to resolve a deadlock. Nothing was written, and the batch is made again, as a whole.
func TestLedgerBatchAfterADeadlock(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	d, db := deskOn(t, repo.NewMySQL(openMySQL(t, dsn))), openMySQL(t, dsn)
	sku := stocked(t, d, "sku", 100)
	steps := sales(sku, 30)
	// Another has an idempotency key of the batch and wants the row of the stock, which the batch has: it has written
	// more, so the batch is the one that is rolled back.
	other := db.Begin()
	defer other.Rollback()
	const key = "INSERT INTO idempotency_keys (id, fingerprint, reply, created_at) VALUES (?, '', '', UTC_TIMESTAMP())"
	for i := range 400 {
		if err := other.Exec(key, fmt.Sprint("heavy", i)).Error; err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Exec(key, steps[20].About.Key.ID).Error; err != nil {
		t.Fatal(err)
	}
	done := make(chan []orders.StepResult, 1)
	go func() { done <- d.books.(orders.Batcher).Batch(short(t), steps) }()
	deadlockWith(t, dsn, other, "INSERT INTO idempotency_keys")
	for i, o := range <-done {
		if o.Err != nil || o.Replayed {
			t.Errorf("step %d: %+v", i, o)
		}
	}
	level(t, d, sku, 70, 0, 30)
}

// A step that its store refuses to write fails alone, and the others are written in their order.
func TestLedgerBatchPoison(t *testing.T) {
	t.Parallel()
	c := dialRedis(t, repotest.Servers.Redis(t).Addr)
	for name, d := range map[string]desk{"redis": deskOn(t, repo.NewRedis(c)), "mysql": mysqlDesk(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sku := stocked(t, d, newSKU("poison"), 100)
			taken := ordered(t, d, "ann", line(sku, 1))
			steps := sales(sku, 6)
			steps[2].Decide = place(taken, "c2", line(sku, 1)) // the id of another order
			steps[4].About.Key = steps[3].About.Key            // a request that is sent twice
			for i, o := range d.books.(orders.Batcher).Batch(short(t), steps) {
				if (o.Err != nil) != (i == 2) || o.Replayed != (i == 4) {
					t.Errorf("step %d: %+v", i, o)
				}
			}
			level(t, d, sku, 95, 0, 5)
			var who []string
			for _, m := range journal(t, d, sku)[2:] {
				who = append(who, m.Customer)
			}
			if want := []string{"c0", "c1", "c3", "c5"}; !slices.Equal(who, want) {
				t.Errorf("written for %v, want %v", who, want)
			}
		})
	}
}

// A key that a step about another SKU has taken meanwhile is replayed, and the batch written.
func TestLedgerBatchKeyOfAnotherSKU(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) desk{"redis": redisDesk, "mysql": mysqlDesk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			a, b := stocked(t, d, newSKU("key-a"), 200), stocked(t, d, newSKU("key-b"), 200)
			for range 10 {
				one, two := sales(a, 8), sales(b, 8)
				for i := range two {
					two[i].About.Key = one[7-i].About.Key
				}
				var all sync.WaitGroup
				var outcomes [2][]orders.StepResult
				for i, steps := range [][]orders.Request{one, two} {
					all.Go(func() { outcomes[i] = d.books.(orders.Batcher).Batch(short(t), steps) })
				}
				all.Wait()
				for i, o := range outcomes[0] {
					if p := outcomes[1][7-i]; o.Err != nil || p.Err != nil || o.Replayed == p.Replayed {
						t.Errorf("key %d: %+v and %+v", i, o, p)
					}
				}
			}
			if l, m := balances(t, d, a), balances(t, d, b); l.Sold+m.Sold != 80 {
				t.Errorf("%+v, %+v", l, m)
			}
		})
	}
}

// However many steps there are, a batch is two round trips. In MySQL one with a replay is begun in vain, and made once
// more.
func TestLedgerBatchRoundTrips(t *testing.T) {
	t.Parallel()
	for name, replayed := range map[string]int{"redis": 1, "mysql": 5} {
		p, d, _ := proxiedDesks(t, name)
		sku := stocked(t, d, newSKU("batch-trips"), 100)
		ordered(t, d, "ann", line(sku, 1))
		batch := func(steps []orders.Request) func() {
			return func() { d.books.(orders.Batcher).Batch(short(t), steps) }
		}
		steps := sales(sku, 40)
		if n := p.Trips(batch(steps)); n != 2 {
			t.Errorf("%s: %d round trips, want 2", name, n)
		}
		level(t, d, sku, 59, 0, 41)
		if n := p.Trips(batch(steps)); n != replayed {
			t.Errorf("%s: %d round trips for replays, want %d", name, n, replayed)
		}
	}
}

// A ledger that has just begun, and has never read of a limit, heeds one from the first step on.
func TestALimitHoldsFromTheFirstStepOn(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1, 2} {
		d, sku := mysqlDesk(t), newSKU("limit")
		stocked(t, d, sku, 10)
		if err := d.SetPolicy(short(t), sku, limit); err != nil {
			t.Fatal(err)
		}
		about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann"}
		step(t, d, about, place(newID(), "ann", line(sku, limit)))
		begun := mysqlDesk(t)
		_, _, err := begun.Step(short(t), about, place(newID(), "ann", line(sku, 1)))
		if !errors.Is(err, orders.ErrLimit) {
			t.Errorf("one more than the limit of %d: %v, want ErrLimit", limit, err)
		}
		about.Customer = "bob"
		step(t, begun, about, place(newID(), "bob", line(sku, limit)))
	}
}
