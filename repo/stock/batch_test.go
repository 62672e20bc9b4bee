package stock_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// batching are the clauses about Batch.
var batching = []clause{
	{"batch-as-one-by-one", "A batch is what its orders would be one after the other.", batchAsOneByOne},
	{"batch-large", "An order that does not fit is sold out, and smaller ones behind it are sold.", batchLarge},
	{"batch-nothing", "An empty batch does nothing; one of several SKUs is refused.", batchNothing},
	{"batch-poison", "A text that the store cannot hold, or a settled id, is refused alone.", batchPoison},
	{"batch-many", "Batches and single sales at once never oversell, and share no version.", batchMany},
	{"batch-long", "Versions and fences beyond 2^53, and batches beyond what Lua can unpack, are exact.", batchLong},
}

// unread is an order of a sale that has read nothing.
func unread(sku service.SKU, quantity int64) service.Order {
	o := numbered(service.Stock{SKU: sku})
	o.Quantity = quantity
	return o
}

func mustBatch(t testing.TB, s shop, orders ...service.Order) []service.BatchResult {
	t.Helper()
	results, err := s.Batch(short(t), orders)
	if err != nil || len(results) != len(orders) {
		t.Fatalf("Batch of %d: %d results, %v", len(orders), len(results), err)
	}
	return results
}

// what says what an error is, without words that differ from order to order.
func what(err error) string {
	var out *service.SoldOutError
	var guarded *service.GuardError
	switch {
	case err == nil:
		return "sold"
	case errors.As(err, &out):
		return out.Error()
	case errors.As(err, &guarded):
		return guarded.Error()
	case invalid(err) == repotest.ErrInvalid:
		return "invalid"
	}
	for _, known := range []error{
		service.ErrStockReset, service.ErrStaleFence, service.ErrConflict, service.ErrSettled, service.ErrUnknownSKU,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return "another: " + err.Error()
}

// chance makes the same order twice, for two SKUs. Some of them cannot be written, for every reason there is.
func chance(t *testing.T, r *rand.Rand, s shop, a, b service.SKU, earlier *[][2]string) [2]service.Order {
	t.Helper()
	pair := [2]service.Order{unread(a, 1+r.Int64N(4)), unread(b, 0)}
	o := &pair[0]
	switch r.IntN(12) {
	case 0:
		o.Quantity = 30 + r.Int64N(60)
	case 1:
		o.Quantity = []int64{-1, 0, service.MaxQuantity + 1}[r.IntN(3)]
	}
	switch r.IntN(10) {
	case 0:
		o.Epoch, pair[1].Epoch = 1, 1
	case 4:
		o.Epoch, pair[1].Epoch = mustRead(t, s, a).Epoch, mustRead(t, s, b).Epoch
	case 1:
		o.Strategy = "another"
	case 2:
		o.Fence = uint64(1 + r.IntN(20))
	case 3:
		o.CreatedAt = time.Now().Add(-stock.KeepOrders).UTC().Truncate(time.Microsecond)
	}
	pair[1].Quantity, pair[1].Strategy, pair[1].Fence = o.Quantity, o.Strategy, o.Fence
	pair[1].CreatedAt = o.CreatedAt
	ids := [2]string{o.ID, pair[1].ID}
	switch {
	case time.Since(o.CreatedAt) > time.Hour: // an id that this service did not make: the order's own time counts
		ids = [2]string{uuid.NewString(), uuid.NewString()}
	case r.IntN(12) == 0 && len(*earlier) > 0:
		ids = (*earlier)[r.IntN(len(*earlier))]
	case r.IntN(12) == 0:
		wantAbsent(t, s, a, ids[0])
		wantAbsent(t, s, b, ids[1])
	}
	*earlier = append(*earlier, ids)
	pair[0].ID, pair[1].ID = ids[0], ids[1]
	return pair
}

func batchAsOneByOne(t *testing.T, s shop, sku service.SKU) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	a, b := sku+"-a", sku+"-b"
	var earlier [][2]string
	seen := map[string]int{}
	for round := range servertest.Rounds(30, 15) {
		if round%5 == 0 {
			quantity := 20 + r.Int64N(100)
			mustSet(t, s, a, quantity)
			mustSet(t, s, b, quantity)
		}
		size := []int{1, 2, 10, 40}[r.IntN(4)]
		batch, single := make([]service.Order, size), make([]service.Order, size)
		for i := range size {
			pair := chance(t, r, s, a, b, &earlier)
			batch[i], single[i] = pair[0], pair[1]
		}
		results := mustBatch(t, s, batch...)
		for i, o := range single {
			done, err := s.Deduct(short(t), o)
			got := results[i]
			seen[strings.TrimRight(what(err), "0123456789 left")]++
			if what(got.Err) != what(err) {
				t.Fatalf("seed %d, round %d, order %d of %d: %v in the batch, %v alone",
					seed, round, i, size, got.Err, err)
			}
			want := service.Order{}
			if err == nil {
				want = done
				want.SKU, want.ID, want.Epoch = a, batch[i].ID, mustRead(t, s, a).Epoch
			} else {
				want = batch[i]
			}
			if got.Order != want && err == nil {
				t.Fatalf("seed %d, order %d of %d: %+v\nwant %+v", seed, i, size, got.Order, want)
			}
		}
		left, right := mustRead(t, s, a), mustRead(t, s, b)
		if right.SKU, right.Epoch = a, left.Epoch; left != right {
			t.Fatalf("seed %d, round %d: %+v\nwant %+v", seed, round, left, right)
		}
	}
	written, want := allOrders(t, s, a), allOrders(t, s, b)
	if len(written) != len(want) {
		t.Fatalf("seed %d: %d orders, want %d", seed, len(written), len(want))
	}
	for i := range written {
		pair := slices.IndexFunc(earlier, func(ids [2]string) bool { return ids[1] == want[i].ID })
		want[i].SKU, want[i].ID, want[i].Epoch = a, earlier[pair][0], written[i].Epoch
		if written[i] != want[i] {
			t.Fatalf("seed %d, order %d: %+v\nwant %+v", seed, i, written[i], want[i])
		}
	}
	if len(seen) < servertest.Rounds(7, 4) {
		t.Errorf("seed %d: only %v happened, so this proves little", seed, seen)
	}
	t.Log(seed, seen)
}

func batchLarge(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 10)
	quantities := []int64{4, 7, 6, 1, 5, 1}
	orders := make([]service.Order, len(quantities))
	for i, q := range quantities {
		orders[i] = unread(sku, q)
	}
	var got []string
	for _, r := range mustBatch(t, s, orders...) {
		text := what(r.Err)
		if r.Err == nil {
			text = fmt.Sprintf("%d of %d at %d", r.Order.Quantity, r.Order.Read, r.Order.Version-stock.Version)
		}
		got = append(got, text)
	}
	want := []string{
		"4 of 10 at 0", "sold out: 6 left", "6 of 6 at 1", "sold out: 0 left", "sold out: 0 left",
		"sold out: 0 left",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	balanced(t, s, sku, 2)
	before := mustRead(t, s, sku)
	for _, r := range mustBatch(t, s, unread(sku, 1), unread(sku, 2)) {
		if !errors.Is(r.Err, service.ErrSoldOut) {
			t.Errorf("nothing is left: %v", r.Err)
		}
	}
	if after := mustRead(t, s, sku); after != before {
		t.Errorf("a batch of refusals changed %+v to %+v", before, after)
	}
}

func batchNothing(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 10)
	mustSet(t, s, sku+"-2", 10)
	if results, err := s.Batch(short(t), nil); len(results) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", results, err)
	}
	refused(t, s, sku, repotest.ErrInvalid, func() error {
		_, err := s.Batch(short(t), []service.Order{unread(sku, 1), unread(sku+"-2", 1)})
		return invalid(err)
	})
	for _, r := range mustBatch(t, s, unread(sku, 0), unread(sku, service.MaxQuantity+1)) {
		if invalid(r.Err) != repotest.ErrInvalid {
			t.Errorf("no quantity: %v", r.Err)
		}
	}
	_, err := s.Batch(short(t), []service.Order{unread(sku+"-3", 1), unread(sku+"-3", 1)})
	if !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("unknown SKU: %v", err)
	}
	part := unread(sku, 1)
	part.Segment = 1
	refused(t, s, sku, repotest.ErrInvalid, func() error {
		_, err := s.Batch(short(t), []service.Order{part})
		return invalid(err)
	})
	balanced(t, s, sku, 0)
}

func batchPoison(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	orders := make([]service.Order, 8)
	for i := range orders {
		orders[i] = unread(sku, 1)
	}
	wantAbsent(t, s, sku, orders[2].ID)
	orders[5].RequestID = strings.Repeat("x", 300) // Redis holds it
	bad := []int{2}
	if _, is := s.(*stock.MySQL); is {
		bad = append(bad, 5)
	}
	last := ""
	for i, r := range mustBatch(t, s, orders...) {
		if slices.Contains(bad, i) != (r.Err != nil) {
			t.Errorf("order %d: %v", i, r.Err)
		}
		if r.Err == nil {
			now := fmt.Sprintf("%09d", r.Order.Version)
			if now <= last {
				t.Errorf("order %d has version %s after %s", i, now, last)
			}
			last = now
		}
	}
	balanced(t, s, sku, len(orders)-len(bad))
}

func batchMany(t *testing.T, s shop, sku service.SKU) {
	const units = 100
	mustSet(t, s, sku, units)
	var all sync.WaitGroup
	var mu sync.Mutex
	var sold int64
	for range 6 {
		all.Go(func() {
			for range 6 {
				orders := []service.Order{unread(sku, 1), unread(sku, 2), unread(sku, 1)}
				results, err := s.Batch(short(t), orders)
				if err != nil {
					t.Error(err)
					return
				}
				one, err := s.Deduct(short(t), unread(sku, 1))
				for _, r := range append(results, service.BatchResult{Order: one, Err: err}) {
					if r.Err == nil {
						mu.Lock()
						sold += r.Order.Quantity
						mu.Unlock()
					} else if !errors.Is(r.Err, service.ErrSoldOut) {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	all.Wait()
	versions := map[uint64]bool{}
	orders := allOrders(t, s, sku)
	for _, o := range orders {
		versions[o.Version] = true
	}
	stock := mustRead(t, s, sku)
	if sold != units || stock.Quantity != 0 || stock.Sold != units || len(versions) != len(orders) {
		t.Errorf("%d sold, %d versions of %d orders, %+v", sold, len(versions), len(orders), stock)
	}
}

func batchLong(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, service.MaxStock)
	orders := make([]service.Order, 2500)
	for i := range orders {
		orders[i] = unread(sku, 1)
		orders[i].Fence = 1<<63 + uint64(i)
	}
	for i, r := range mustBatch(t, s, orders...) {
		if r.Err != nil || r.Order.Version != stock.Version+uint64(i) ||
			r.Order.Read != service.MaxStock-int64(i) || r.Order.Fence != orders[i].Fence {
			t.Fatalf("order %d: %+v, %v", i, r.Order, r.Err)
		}
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: service.MaxStock - 2500, Initial: service.MaxStock, Sold: 2500,
		Version: stock.Version + 2500, Epoch: stock.Epoch, Fence: 1<<63 + 2499, Guard: "none",
	})
	low := unread(sku, 1)
	low.Fence = 1<<63 + 2498
	if r := mustBatch(t, s, low); !errors.Is(r[0].Err, service.ErrStaleFence) {
		t.Errorf("a smaller fence: %v", r[0].Err)
	}
}

// A version beyond 2^53 is counted exactly, with its carries.
func TestBatchCountsLongVersions(t *testing.T) {
	t.Parallel()
	client := dialRedis(t, repotest.Servers.Redis(t).Addr)
	s := onRedis(client)
	for _, from := range []uint64{999_999_998, 1<<53 - 1, 9_999_999_999_999_999_998, 18_446_744_073_709_551_600} {
		sku := newSKU("version")
		mustSet(t, s, sku, 100)
		if err := client.HSet(t.Context(), "stock:{"+string(sku)+"}", "version", fmt.Sprint(from)).Err(); err != nil {
			t.Fatal(err)
		}
		results := mustBatch(t, s, unread(sku, 1), unread(sku, 1), unread(sku, 1), unread(sku, 1))
		for i, r := range results {
			if r.Err != nil || r.Order.Version != from+uint64(i) {
				t.Errorf("version %d, want %d; %v", r.Order.Version, from+uint64(i), r.Err)
			}
		}
		if got := mustRead(t, s, sku).Version; got != from+4 {
			t.Errorf("version %d at last, want %d", got, from+4)
		}
	}
}
