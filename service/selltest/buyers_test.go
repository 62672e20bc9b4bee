package selltest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/service"
)

// A buyer asks for the same quantity again and again until it is told that so many are not left.
type buyer struct {
	quantity int64
	instance int // which of the instances it asks
}

// A purchase is one request of a buyer, and what came of it.
type purchase struct {
	quantity   int64
	asked, got time.Time
	receipt    service.Receipt
	left       int64 // when refused; -1: sold
}

// buyAtOnce lets all buyers buy at once, and returns what happened.
func buyAtOnce(t *testing.T, instances []*scene, buyers []buyer) []purchase {
	t.Helper()
	var mu sync.Mutex
	var all []purchase
	var done sync.WaitGroup
	for _, who := range buyers {
		done.Go(func() {
			for refused := false; !refused; {
				b := purchase{quantity: who.quantity, asked: time.Now(), left: -1}
				r, err := instances[who.instance].sell(t.Context(), quantity(who.quantity))
				b.got, b.receipt = time.Now(), r
				var told *service.SoldOutError
				switch {
				case errors.As(err, &told):
					b.left, refused = told.Remaining, true
				case err != nil:
					t.Error(err)
					return
				}
				mu.Lock()
				all = append(all, b)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return all
}

// audit wants every accepted purchase in the store once, nothing else, no two sales of one version, and every
// refusal to be true.
func audit(t *testing.T, s *scene, purchases []purchase, stocked int64) {
	t.Helper()
	stock, err := s.Stock(t.Context(), "", s.sku)
	if err != nil {
		t.Fatal(err)
	}
	orders := map[string]service.Order{}
	for cursor := ""; ; {
		page, err := s.Orders(t.Context(), "", s.sku, cursor, service.MaxPage)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Orders {
			orders[o.ID] = o
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	var sold int64
	accepted := 0
	seen := map[string]string{}
	for _, b := range purchases {
		if b.left >= 0 {
			refusal(t, b, purchases, stocked)
			continue
		}
		accepted++
		sold += b.quantity
		o := orders[b.receipt.ID]
		if o.Quantity != b.quantity || o.Segment != b.receipt.Segment || o.Remaining != o.Read-o.Quantity {
			t.Errorf("receipt %+v is for order %+v", b.receipt, o)
		}
		key := fmt.Sprint(o.Epoch, "/", o.Segment, "/", o.Version)
		if other, twice := seen[key]; twice {
			t.Errorf("orders %s and %s read the same version %s", o.ID, other, key)
		}
		seen[key] = o.ID
	}
	if accepted != len(orders) || stock.Sold != sold || stock.Quantity+sold != stocked || stock.Quantity < 0 {
		t.Errorf("%d accepted, %d orders, %d units sold of %d: %+v", accepted, len(orders), sold, stocked, stock)
	}
}

// refusal checks a "sold out" against what all others did. While the request was under way there were at most as
// many units as were left by the sales that had been answered before it began, and at least as many as would be
// left by all that began before it ended. What it says was left must be possible, and too few.
func refusal(t *testing.T, b purchase, purchases []purchase, stocked int64) {
	t.Helper()
	most, least := stocked, stocked
	for _, other := range purchases {
		if other.left < 0 && other.got.Before(b.asked) {
			most -= other.quantity
		}
		if other.left < 0 && other.asked.Before(b.got) {
			least -= other.quantity
		}
	}
	if b.left >= b.quantity || b.left < least || b.left > most {
		t.Errorf("%d wanted and %d left, said the refusal; there were from %d to %d", b.quantity, b.left, least, most)
	}
}

// buyersOf returns n buyers with those quantities in turn, spread over instances.
func buyersOf(n, instances int, quantities ...int64) []buyer {
	list := make([]buyer, n)
	for i := range list {
		list[i] = buyer{quantities[i%len(quantities)], i % instances}
	}
	return list
}
