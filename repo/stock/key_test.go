package stock_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// withKeys are the clauses about idempotency keys.
var withKeys = []clause{
	{"key-once", "An order with the key of another is refused by every way to write, and nothing is written.", keyOnce},
	{"key-replay", "The order of a key is found as it was written, and not with another fingerprint.", keyReplay},
	{"key-epoch", "A key is remembered when the stock is set anew.", keyEpoch},
	{"key-refused", "A refused order leaves its key free.", keyRefused},
}

// newKey makes a key that no other SKU has.
func newKey(sku service.SKU, name string) service.Key {
	pad := func(s string) string { return s + strings.Repeat("-", service.KeyLength-len(s)) }
	id := fmt.Sprintf("%.20s.%s.%d", sku, name, time.Now().UnixMicro()%1e9)
	return service.Key{ID: pad(id), Fingerprint: pad("asked")}
}

// reads fills in what is in stock now.
func reads(t *testing.T, s shop, o service.Order) service.Order {
	stock := mustRead(t, s, o.SKU)
	o.Read, o.Version, o.Epoch, o.Remaining = stock.Quantity, stock.Version, stock.Epoch, stock.Quantity-o.Quantity
	return o
}

func keyOnce(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	for first, write := range ways(s) {
		key := newKey(sku, first)
		o := reads(t, s, unread(sku, 1))
		o.Key = key
		if err := write(short(t), o); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		for second, again := range ways(s) {
			refused(t, s, sku, service.ErrKeyTaken, func() error {
				o := reads(t, s, unread(sku, 2))
				o.Key = key
				err := again(short(t), o)
				if err == nil {
					t.Errorf("%s after %s is written", second, first)
				}
				return err
			})
		}
	}
}

func keyReplay(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	key := newKey(sku, "replay")
	if o, found, err := s.Replay(short(t), sku, key); found || err != nil {
		t.Errorf("before: %+v, %t, %v", o, found, err)
	}
	o := unread(sku, 3)
	o.Key, o.RequestID = key, `"quoted" \ 中文`
	wrote, err := s.Deduct(short(t), o)
	if err != nil {
		t.Fatal(err)
	}
	got, found, err := s.Replay(short(t), sku, key)
	want := wrote
	want.Key, want.CreatedAt, got.CreatedAt = service.Key{}, time.Time{}, time.Time{}
	if !found || err != nil || got != want {
		t.Errorf("found %+v, %t, %v\nwant  %+v", got, found, err, want)
	}
	key.Fingerprint = strings.Repeat("x", service.KeyLength)
	if _, found, err := s.Replay(short(t), sku, key); found || !errors.Is(err, service.ErrKeyReused) {
		t.Errorf("another fingerprint: %t, %v, want %v", found, err, service.ErrKeyReused)
	}
}

func keyEpoch(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 10)
	o := unread(sku, 1)
	o.Key = newKey(sku, "epoch")
	first, err := s.Deduct(short(t), o)
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, sku, 10)
	refused(t, s, sku, service.ErrKeyTaken, func() error {
		o.ID = unread(sku, 1).ID
		_, err := s.Deduct(short(t), o)
		return err
	})
	if got, found, err := s.Replay(short(t), sku, o.Key); !found || err != nil || got.ID != first.ID {
		t.Errorf("found %+v, %t, %v", got, found, err)
	}
}

func keyRefused(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 1)
	o := unread(sku, 2)
	o.Key = newKey(sku, "refused")
	refused(t, s, sku, service.ErrSoldOut, func() error {
		_, err := s.Deduct(short(t), o)
		return err
	})
	refused(t, s, sku, service.ErrSoldOut, func() error { return mustBatch(t, s, o)[0].Err })
	o.Quantity = 1
	if _, err := s.Deduct(short(t), o); err != nil {
		t.Errorf("the key is taken by a refusal: %v", err)
	}
}

// Redis forgets the keys of deductions by itself.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	c := dialRedis(t, repotest.Servers.Redis(t).Addr)
	s, sku := stock.NewRedis(repo.NewRedis(c)), newSKU("expire")
	mustSet(t, s, sku, 100)
	for name, write := range ways(s) {
		o := reads(t, s, unread(sku, 1))
		o.Key = newKey(sku, name)
		if err := write(short(t), o); err != nil {
			t.Fatal(name, err)
		}
		left := c.PTTL(t.Context(), "stock:{"+string(sku)+"}:key:"+o.Key.ID).Val()
		if left > service.KeepKeys || left < service.KeepKeys-time.Minute {
			t.Errorf("%s: it is kept for %v, want %v", name, left, service.KeepKeys)
		}
	}
}
