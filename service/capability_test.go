package service_test

import (
	"context"
	"errors"
	"testing"

	"example.com/stock/service"
)

// plainStore can do what every store must, and nothing more.
type plainStore struct {
	service.Store
	service.Inventory
}

// A strategy on a store which it cannot sell from is refused when the service starts, not when somebody buys.
func TestAStrategyMustFitItsStores(t *testing.T) {
	t.Parallel()
	config := func(stores ...string) service.Config {
		return service.Config{
			Strategies: map[string]service.StrategyConfig{
				"atomic": {Seller: service.Atomically, Fits: service.Fits[service.Deductor], Stores: stores},
			},
			Stores: map[string]service.StoreConfig{"plain": {Store: plainStore{}}},
		}
	}
	if _, err := service.New(config()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a strategy that works on all stores: %v, want an error that names the store", err)
	}
	if _, err := service.New(config("plain")); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a strategy that works on this store: %v, want an error that names the store", err)
	}
	absent := config()
	absent.Stores["absent"], absent.Stores["plain"] = service.StoreConfig{}, service.StoreConfig{}
	if _, err := service.New(absent); err != nil {
		t.Errorf("a store that is not configured: %v", err)
	}
	if _, err := service.New(config("other")); err != nil {
		t.Errorf("a strategy that does not work on this store: %v", err)
	}
}

// A seller that is given a store which it cannot sell from says so, whoever forgot to ask.
func TestSellersRefuseAStoreThatCannot(t *testing.T) {
	t.Parallel()
	for name, sell := range map[string]service.Seller{
		"pessimistic": service.InTransaction,
		"atomic":      service.Atomically,
		"optimistic":  service.Optimistically(service.OptimisticOptions{}),
		"segmented":   service.Segmented(nil, service.SegmentedOptions{}),
		"merged":      service.Merged(service.MergeOptions{}),
	} {
		if err := sell(context.Background(), plainStore{}, &service.Sale{}); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
	}
}
