package stock_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"gorm.io/gorm"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

func TestMain(m *testing.M) { repotest.Main(m) }

// What tests of this package use of repotest.
var (
	down      = repotest.Down
	database  = repotest.Database
	dialRedis = repotest.DialRedis
	invalid   = repotest.Invalid
	migrated  = repotest.Migrated
	miniAddr  = repotest.MiniAddr
	mustRead  = repotest.MustRead
	mustSet   = repotest.MustSet
	newProxy  = repotest.NewProxy
	newSKU    = repotest.NewSKU
	numbered  = repotest.Numbered
	openMySQL = repotest.OpenMySQL
	order     = repotest.Order
	short     = repotest.Short
	trips     = repotest.TripsOf
	want      = repotest.Want
)

type (
	proxy = repotest.Proxy
	shop  = repotest.Shop
)

func realRedis(t testing.TB) shop {
	return onRedis(dialRedis(t, servertest.Redis(t).Addr))
}

func miniRedis(t testing.TB) shop {
	return onRedis(dialRedis(t, repotest.MiniAddr(t)))
}

func realMySQL(t testing.TB) shop {
	return onMySQL(openMySQL(t, database(t)))
}

// proxied is a store behind a proxy, and the same store without it.
func proxied(t *testing.T, name string) (p proxy, broken, sound shop) {
	p, through, direct := repotest.Proxied(t, name)
	return p, repotest.ShopOn(through), repotest.ShopOn(direct)
}

// allOrders reads every page, of two orders each.
func allOrders(t testing.TB, s shop, sku service.SKU) []service.Order {
	t.Helper()
	var all []service.Order
	for from := ""; ; {
		page, next, err := s.Orders(short(t), sku, from, 2)
		if err != nil {
			t.Fatalf("Orders(%s, %q): %v", sku, from, err)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		from = next
	}
}

func onMySQL(db *gorm.DB) *stock.MySQL { return stock.NewMySQL(repo.NewMySQL(db)) }

func onRedis(c redis.UniversalClient) *stock.Redis { return stock.NewRedis(repo.NewRedis(c)) }
