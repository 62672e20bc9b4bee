package stock_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// What both stores promise of Set.
var conditions = []clause{
	{"if-match", "Set with the tag of the stock sets it; with another it writes nothing.", ifMatch},
	{"if-any", "The tag * stands for a stock that exists.", ifAny},
	{"if-none", "A stock that must not exist is made once.", ifNone},
	{"if-segments", "The tag of a stock in segments changes with each of them.", ifSegments},
	{"if-match-many", "Of 10 that set the stock with one tag at once one succeeds.", ifMatchMany},
	{"if-none-many", "Of 10 that make the stock at once one succeeds.", ifNoneMany},
}

// unmet wants Set to refuse, and the stock to stay as it is.
func unmet(t *testing.T, s shop, sku service.SKU, c service.Condition) {
	t.Helper()
	before, unknown := s.Read(short(t), sku)
	if _, err := s.Set(short(t), sku, 7, c); !errors.Is(err, service.ErrPrecondition) {
		t.Errorf("%+v of %+v: %v, want ErrPrecondition", c, before, err)
	}
	after, err := s.Read(short(t), sku)
	if after != before || errors.Is(err, service.ErrUnknownSKU) != errors.Is(unknown, service.ErrUnknownSKU) {
		t.Errorf("%+v: a refusal made %+v of %+v", c, after, before)
	}
}

// met wants Set to set, and returns what there is now.
func met(t *testing.T, s shop, sku service.SKU, c service.Condition) service.Stock {
	t.Helper()
	told, err := s.Set(short(t), sku, 7, c)
	now := mustRead(t, s, sku)
	if err != nil || now.Quantity != 7 || told != now {
		t.Errorf("%+v: %+v, %v; told %+v", c, now, err, told)
	}
	return now
}

func ifMatch(t *testing.T, s shop, sku service.SKU) {
	first := mustSet(t, s, sku, 100)
	unmet(t, s, sku, service.Condition{Match: []string{}})
	unmet(t, s, sku, service.Condition{Match: []string{"9-9", fmt.Sprintf("%d-%d", first.Version, first.Epoch+1)}})
	unmet(t, s, sku, service.Condition{NoneMatch: []string{"9-9", first.Tag()}})
	second := met(t, s, sku, service.Condition{Match: []string{"9-9", first.Tag()}})
	if second.Tag() == first.Tag() {
		t.Errorf("two states have the tag %s", first.Tag())
	}
	unmet(t, s, sku, service.Condition{Match: []string{first.Tag()}})
	met(t, s, sku, service.Condition{Match: []string{second.Tag()}, NoneMatch: []string{first.Tag()}})
}

func ifAny(t *testing.T, s shop, sku service.SKU) {
	anything := service.Condition{Match: []string{service.AnyTag}}
	unmet(t, s, sku, anything)
	unmet(t, s, sku, service.Condition{Match: []string{"1-1"}})
	mustSet(t, s, sku, 100)
	met(t, s, sku, anything)
}

func ifNone(t *testing.T, s shop, sku service.SKU) {
	nothing := service.Condition{NoneMatch: []string{service.AnyTag}}
	met(t, s, sku, nothing)
	unmet(t, s, sku, nothing)
}

func ifSegments(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 50)
	parted := parts(t, s, sku)
	if err := s.Write(short(t), fromSegment(parted, 1)); err != nil {
		t.Fatal(err)
	}
	sold := mustRead(t, s, sku)
	for _, old := range []service.Stock{stock, parted.Stock} {
		unmet(t, s, sku, service.Condition{Match: []string{old.Tag()}})
	}
	met(t, s, sku, service.Condition{Match: []string{sold.Tag()}})
}

func ifMatchMany(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	oneOfMany(t, s, sku, service.Condition{Match: []string{stock.Tag()}})
}

func ifNoneMany(t *testing.T, s shop, sku service.SKU) {
	oneOfMany(t, s, sku, service.Condition{NoneMatch: []string{service.AnyTag}})
}

// oneOfMany wants one to succeed, and what it set to stay.
func oneOfMany(t *testing.T, s shop, sku service.SKU, c service.Condition) {
	t.Helper()
	var done sync.WaitGroup
	var mu sync.Mutex
	var winners []int64
	start := make(chan struct{})
	for n := range 10 {
		done.Go(func() {
			<-start
			stock, err := s.Set(short(t), sku, int64(n), c)
			for errors.Is(err, lock.ErrHeld) { // too many deadlocks in a row, on a busy computer
				stock, err = s.Set(short(t), sku, int64(n), c)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				winners = append(winners, stock.Quantity)
			case !errors.Is(err, service.ErrPrecondition):
				t.Error(err)
			}
		})
	}
	close(start)
	done.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d have set the stock, want one", len(winners))
	}
	if now := mustRead(t, s, sku); now.Quantity != winners[0] {
		t.Errorf("the stock is %+v, set by the one to %d", now, winners[0])
	}
}
