package stock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// batching are the clauses about Batch.
var batching = []clause{
	{"batch-as-one-by-one", "A batch is what its orders would be one after the other.", batchAsOneByOne},
	{"batch-poison", "A text that the store cannot hold, or a settled id, is refused alone.", batchPoison},
	{"batch-many", "Batches and single sales at once never oversell, and no two share a version.", batchMany},
	{"batch-long", "Versions and fences beyond 2^53, and batches beyond what Lua can unpack, are exact.", batchLong},
}

// unread is an order of a sale that has read nothing.
func unread(sku service.SKU, quantity int64) service.Order {
	o := order(service.Stock{SKU: sku})
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

// batchAsOneByOne sells from two SKUs: from one in batches of several sizes, from the other one order at a time.
func batchAsOneByOne(t *testing.T, s shop, sku service.SKU) {
	batched, single := sku+"-a", sku+"-b"
	epochs, keys := map[service.SKU]uint64{}, map[service.SKU]service.Key{}
	kinds := []func(o *service.Order){
		func(*service.Order) {},
		func(o *service.Order) { o.Quantity = 40 },
		func(o *service.Order) { o.Fence = 5 },
		func(o *service.Order) { o.Fence = 4 },
		func(o *service.Order) { o.Strategy = "another" },
		func(o *service.Order) { o.Epoch = 1 },
		func(o *service.Order) { o.Epoch = epochs[o.SKU] },
		func(o *service.Order) { o.ID = agedID(stock.KeepOrders) },
		func(o *service.Order) { wantAbsent(t, s, o.SKU, o.ID) },
		func(o *service.Order) { o.Key = keys[o.SKU] },
		func(o *service.Order) { o.Key = keys[o.SKU] },
		func(o *service.Order) { o.Quantity = 9 },
		func(o *service.Order) { o.Quantity = 7 },
		func(*service.Order) {},
	}
	// like says what is the same of both.
	like := func(o service.Order, err error) string {
		if err != nil {
			return strings.NewReplacer(o.ID, "its id", keys[o.SKU].ID, "its key").Replace(err.Error())
		}
		o.ID, o.SKU, o.Epoch, o.CreatedAt, o.Key = "", "", 0, time.Time{}, service.Key{}
		return fmt.Sprintf("%+v", o)
	}
	for _, size := range []int{1, 4, len(kinds)} {
		for _, sku := range []service.SKU{batched, single} {
			epochs[sku], keys[sku] = mustSet(t, s, sku, 20).Epoch, newKey(sku, "batch")
		}
		for chunk := range slices.Chunk(kinds, size) {
			var batch []service.Order
			var want []string
			for _, kind := range chunk {
				o, alone := unread(batched, 1), unread(single, 1)
				kind(&o)
				kind(&alone)
				batch = append(batch, o)
				done, err := s.Deduct(short(t), alone)
				want = append(want, like(done, err))
			}
			for i, r := range mustBatch(t, s, batch...) {
				if got := like(r.Order, r.Err); got != want[i] {
					t.Errorf("batches of %d: %s\nalone: %s", size, got, want[i])
				}
			}
		}
		left, right := mustRead(t, s, batched), mustRead(t, s, single)
		if right.SKU, right.Epoch = batched, left.Epoch; left != right || left.Quantity != 0 {
			t.Errorf("batches of %d: %+v\nalone: %+v", size, left, right)
		}
		one, other := allOrders(t, s, batched), allOrders(t, s, single)
		if !slices.EqualFunc(one, other, func(a, b service.Order) bool { return like(a, nil) == like(b, nil) }) {
			t.Errorf("batches of %d: %+v\nalone: %+v", size, one, other)
		}
	}
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
