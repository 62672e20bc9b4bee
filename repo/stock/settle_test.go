package stock_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// settling are the clauses about Settle.
var settling = []clause{
	{"settle-written", "An order that was written is found as it was given, in this epoch or before.", settleWritten},
	{"settle-absent", "An order that was settled as absent is never written, and is never counted.", settleAbsent},
	{"settle-epochs", "That holds after the stock was set anew, also for sales that name no epoch.", settleEpochs},
	{"settle-segment", "It holds for sales from segments.", settleSegment},
	{"settle-pages", "An order is found among thousands.", settlePages},
	{"settle-unknown", "It makes no SKU, and takes ids of the service's form only.", settleUnknown},
	{"settle-old", "Of an order so old that it may have been removed nothing is said; none can be written.", settleOld},
	{"settle-race", "Sales and settlements of the same ids agree, whoever comes first.", settleRace},
}

// settle asks for an answer until there is one: a store may say that it is not decided yet.
func settle(t testing.TB, s shop, sku service.SKU, id string) (service.Order, bool) {
	t.Helper()
	ctx := short(t)
	for {
		o, written, err := s.Settle(ctx, sku, id)
		if err == nil {
			return o, written
		}
		if !errors.Is(err, service.ErrUndecided) || ctx.Err() != nil {
			t.Fatalf("settle %s: %v", id, err)
		}
	}
}

func wantAbsent(t testing.TB, s shop, sku service.SKU, id string) {
	t.Helper()
	if o, written := settle(t, s, sku, id); written {
		t.Errorf("order %s is there, want absent: %+v", id, o)
	}
}

func wantWritten(t testing.TB, s shop, o service.Order) {
	t.Helper()
	if got, written := settle(t, s, o.SKU, o.ID); !written || got != o {
		t.Errorf("settled as written %v: %+v\nwant %+v", written, got, o)
	}
}

func settleWritten(t *testing.T, s shop, sku service.SKU) {
	var all []service.Order
	for range 3 {
		stock := mustSet(t, s, sku, 100)
		w := order(stock)
		if err := s.Write(short(t), w); err != nil {
			t.Fatal(err)
		}
		d, err := s.Deduct(short(t), order(service.Stock{SKU: sku}))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range append(all, w, d) {
			wantWritten(t, s, o)
			wantWritten(t, s, o)
		}
		all = append(all, w, d)
	}
	balanced(t, s, sku, 2)
}

func settleAbsent(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	for name, write := range ways(s) {
		o := order(stock)
		wantAbsent(t, s, sku, o.ID)
		refused(t, s, sku, service.ErrSettled, func() error { return write(short(t), o) })
		wantAbsent(t, s, sku, o.ID)
		refused(t, s, sku, service.ErrSettled, func() error { return write(short(t), o) })
		if t.Failed() {
			t.Fatal(name)
		}
	}
	for name, write := range ways(s) {
		if err := write(short(t), order(mustRead(t, s, sku))); err != nil {
			t.Errorf("%s of another order: %v", name, err)
		}
	}
	balanced(t, s, sku, len(ways(s)))
}

func settleEpochs(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	o := order(service.Stock{SKU: sku})
	wantAbsent(t, s, sku, o.ID)
	for range 3 {
		mustSet(t, s, sku, 100)
		refused(t, s, sku, service.ErrSettled, func() error { _, err := s.Deduct(short(t), o); return err })
	}
	wantAbsent(t, s, sku, o.ID)
}

func settleSegment(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 3, 10)
	all := parts(t, s, sku)
	there, gone := fromSegment(all, 3), fromSegment(all, 3)
	there.ID, gone.ID = newID(), newID()
	wantAbsent(t, s, sku, gone.ID)
	refused(t, s, sku, service.ErrSettled, func() error { return s.Swap(short(t), gone) })
	if err := s.Swap(short(t), there); err != nil {
		t.Fatal(err)
	}
	wantWritten(t, s, there)
	parts(t, s, sku)
	balanced(t, s, sku, 1)
}

func settlePages(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 10_000)
	var written []service.BatchResult
	for len(written) < 2105 {
		var batch []service.Order
		for range min(100, 2105-len(written)) {
			batch = append(batch, unread(sku, 1))
		}
		written = append(written, mustBatch(t, s, batch...)...)
	}
	for _, i := range []int{0, 104, 105, 1104, 1105, 2104} {
		if err := written[i].Err; err != nil {
			t.Fatal(err)
		}
		wantWritten(t, s, written[i].Order)
	}
	wantAbsent(t, s, sku, newID())
}

func settleUnknown(t *testing.T, s shop, sku service.SKU) {
	id := newID()
	if _, _, err := s.Settle(short(t), sku, id); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("error %v, want ErrUnknownSKU", err)
	}
	if _, err := s.Read(short(t), sku); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("read: %v, want ErrUnknownSKU", err)
	}
	mustSet(t, s, sku, 1)
	for _, wrong := range []string{
		"", "x", uuid.NewString(), "{" + id + "}", "urn:uuid:" + id, id[:35], "0190B2F4-0000-7000-8000-00000000000A",
	} {
		if _, _, err := s.Settle(short(t), sku, wrong); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("id %q: %v, want an InvalidError", wrong, err)
		}
	}
}

// agedID is an id that was made so long ago.
func agedID(age time.Duration) string {
	u := uuid.Must(uuid.NewV7())
	var stamp [8]byte
	binary.BigEndian.PutUint64(stamp[:], uint64(time.Now().Add(-age).UnixMilli())<<16)
	copy(u[:6], stamp[:6])
	return u.String()
}

func settleOld(t *testing.T, s shop, sku service.SKU) {
	present := mustSet(t, s, sku, 100)
	for age, old := range map[time.Duration]bool{
		stock.KeepOrders/2 - time.Hour: false, stock.KeepOrders/2 + time.Minute: true, 10 * stock.KeepOrders: true,
	} {
		o := order(present)
		o.ID = agedID(age)
		_, written, err := s.Settle(short(t), sku, o.ID)
		if errors.Is(err, service.ErrTooOld) != old || !old && err != nil || written {
			t.Errorf("age %v: written %v, %v; want too old: %v", age, written, err, old)
		}
		for name, write := range ways(s) {
			refused(t, s, sku, service.ErrSettled, func() error { return write(short(t), o) })
			if t.Failed() {
				t.Fatal(age, name)
			}
		}
	}
}

func settleRace(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 1000)
	var all sync.WaitGroup
	var sold atomic.Int64
	for range 20 {
		o := order(service.Stock{SKU: sku})
		all.Go(func() {
			_, err := s.Deduct(short(t), o)
			if err == nil {
				sold.Add(1)
			} else if !errors.Is(err, service.ErrSettled) {
				t.Error(err)
			}
			if _, written := settle(t, s, sku, o.ID); written != (err == nil) {
				t.Errorf("told %v, and settled as written: %v", err, written)
			}
		})
		for range 2 {
			all.Go(func() {
				_, first := settle(t, s, sku, o.ID)
				if _, second := settle(t, s, sku, o.ID); first != second {
					t.Errorf("settled as written %v, then as %v", first, second)
				}
			})
		}
	}
	all.Wait()
	balanced(t, s, sku, int(sold.Load()))
}

// A write whose request is held on its way, or whose client has gone, is settled as absent while it is under way, and
// never appears when it arrives.
func TestSettledWhileOnItsWay(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		store, op, word string
	}{
		{"redis", "Write", "evalsha"},
		{"redis", "Swap", "evalsha"},
		{"redis", "Deduct", "evalsha"},
		{"mysql", "Write", "START TRANSACTION"},
		{"mysql", "Write", "UPDATE"},
		{"mysql", "Write", "INSERT"},
		{"mysql", "Swap", "INSERT"},
		{"mysql", "Deduct", "UPDATE"},
		{"mysql", "Deduct", "INSERT"},
		{"mysql", "Transact", "INSERT"},
	} {
		t.Run(row.store+"/"+row.op+"/"+row.word, func(t *testing.T) {
			t.Parallel()
			p, broken, sound := proxied(t, row.store)
			sku := newSKU("way")
			mustSet(t, sound, sku, 100)
			if _, err := broken.Deduct(short(t), order(service.Stock{SKU: sku})); err != nil { // loads the script
				t.Fatal(err)
			}
			stock := mustSet(t, sound, sku, 100)
			if err := broken.Write(short(t), order(stock)); err != nil {
				t.Fatal(err)
			}
			o := order(mustRead(t, sound, sku))
			held := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(row.word), Do: wire.Hold})
			ended := make(chan error, 1)
			go func() { ended <- ways(broken)[row.op](short(t), o) }()
			<-held.Sprung()
			wantAbsent(t, sound, sku, o.ID)
			held.Release()
			if err := <-ended; !errors.Is(err, service.ErrSettled) {
				t.Errorf("the write that came late: %v, want ErrSettled", err)
			}
			wantAbsent(t, sound, sku, o.ID)
			balanced(t, sound, sku, 1)
		})
	}
}

// A COMMIT that is held on its way: the transaction has the id, so that nothing is decided before it has ended. Only
// that of a Transact goes by itself.
func TestSettleWaitsForTheTransaction(t *testing.T) {
	t.Parallel()
	for _, committed := range []bool{true, false} {
		p, broken, sound := proxied(t, "mysql")
		sku := newSKU("open")
		o := order(mustSet(t, sound, sku, 100))
		mustRead(t, broken, sku) // its connection says "autocommit" first
		held := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- ways(broken)["Transact"](ctx, o) }()
		<-held.Sprung()
		if err := <-ended; !errors.Is(err, service.ErrOutcomeUnknown) {
			t.Fatalf("the write: %v, want ErrOutcomeUnknown", err)
		}
		for range 2 {
			_, written, err := sound.Settle(short(t), sku, o.ID)
			if !errors.Is(err, service.ErrUndecided) {
				t.Errorf("while the transaction is open: written %v, %v; want ErrUndecided", written, err)
			}
		}
		if committed {
			held.Release()
			for len(allOrders(t, sound, sku)) == 0 {
				<-time.After(time.Millisecond)
			}
			wantWritten(t, sound, o)
			balanced(t, sound, sku, 1)
			continue
		}
		p.Cut()
		wantAbsent(t, sound, sku, o.ID)
		balanced(t, sound, sku, 0)
	}
}

// What is settled is forgotten when nothing that was on its way then can be written any more, and not before.
func TestSettledIsForgotten(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := dialRedis(t, servertest.Redis(t).Addr)
		s := onRedis(c)
		mustSet(t, s, "sku", 100)
		first, second := newID(), newID()
		wantAbsent(t, s, "sku", first)
		score := c.ZScore(t.Context(), "stock:{sku}:settled", first).Val()
		left := time.Until(time.UnixMilli(int64(score)))
		if left < stock.KeepOrders-time.Minute || left > stock.KeepOrders+time.Minute {
			t.Errorf("it is remembered for %v, want %v", left, stock.KeepOrders)
		}
		c.ZAdd(t.Context(), "stock:{sku}:settled", redis.Z{Member: first, Score: 1})
		wantAbsent(t, s, "sku", second)
		if all := c.ZRange(t.Context(), "stock:{sku}:settled", 0, -1).Val(); !slices.Equal(all, []string{second, ""}) {
			t.Errorf("settled are %q", all)
		}
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db := openMySQL(t, database(t))
		s := onMySQL(db)
		mustSet(t, s, "sku", 100)
		first, second := newID(), newID()
		wantAbsent(t, s, "sku", first)
		old := time.Now().UTC().Add(-stock.KeepOrders - time.Minute)
		if err := db.Exec("UPDATE orders SET created_at = ?", old).Error; err != nil {
			t.Fatal(err)
		}
		wantAbsent(t, s, "sku", second)
		var left []string
		err := db.Raw("SELECT id FROM orders").Scan(&left).Error
		if err != nil || fmt.Sprint(left) != fmt.Sprint([]string{second}) {
			t.Errorf("%v, %v; want the second alone", left, err)
		}
	})
}

// The number of settled ids is bounded: beyond it nothing is decided, until some are forgotten.
func TestSettledIsBounded(t *testing.T) {
	t.Parallel()
	const most = 100_000
	full := func(t *testing.T, s shop) {
		t.Helper()
		_, _, err := s.Settle(short(t), "sku", newID())
		if !errors.Is(err, service.ErrUndecided) {
			t.Errorf("error %v, want ErrUndecided", err)
		}
	}
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		c := dialRedis(t, servertest.Redis(t).Addr)
		s := onRedis(c)
		mustSet(t, s, "sku", 100)
		members := make([]redis.Z, most)
		for i := range members {
			members[i] = redis.Z{Member: i, Score: float64(time.Now().Add(time.Hour).UnixMilli())}
		}
		c.ZAdd(t.Context(), "stock:{sku}:settled", members...)
		full(t, s)
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db := openMySQL(t, database(t))
		s := onMySQL(db)
		mustSet(t, s, "sku", 100)
		err := db.Exec("INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left," +
			" strategy, instance, request_id, fence, created_at)" +
			" SELECT CONCAT('many-', seq), 'sku', 0, 0, 0, 0, 0, 'tombstone', '', '', 0, UTC_TIMESTAMP(6)" +
			" FROM seq_1_to_100000").Error
		if err != nil {
			t.Fatal(err)
		}
		full(t, s)
	})
}
