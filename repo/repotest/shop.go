package repotest

import (
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"

	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// A Shop has the interfaces that both stores implement.
type Shop interface {
	service.Store
	service.Deductor
	service.Batcher
	service.Segmenter
	service.Inventory
	service.Replayer
}

// ShopOn returns the demonstration's store on a [repo.Redis] or a [repo.MySQL].
func ShopOn(conn any) Shop {
	if m, is := conn.(*repo.MySQL); is {
		return stock.NewMySQL(m)
	}
	return stock.NewRedis(conn.(*repo.Redis))
}

// Order returns the order of a sale of one unit that has read stock.
func Order(stock service.Stock) service.Order {
	return service.Order{
		ID: uuid.NewString(), SKU: stock.SKU, Quantity: 1, Read: stock.Quantity, Remaining: stock.Quantity - 1,
		Version: stock.Version, Epoch: stock.Epoch, Strategy: "none", Instance: "app-1", RequestID: "r-1",
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

// Numbered returns an Order with an id as the service makes it, a UUID of version 7.
func Numbered(stock service.Stock) service.Order {
	o := Order(stock)
	o.ID = uuid.Must(uuid.NewV7()).String()
	return o
}

func MustSet(t testing.TB, s Shop, sku service.SKU, quantity int64) service.Stock {
	t.Helper()
	stock, err := s.Set(Short(t), sku, quantity)
	if err != nil {
		t.Fatalf("Set(%s, %d): %v", sku, quantity, err)
	}
	return stock
}

func MustRead(t testing.TB, s Shop, sku service.SKU) service.Stock {
	t.Helper()
	stock, err := s.Read(Short(t), sku)
	if err != nil {
		t.Fatalf("Read(%s): %v", sku, err)
	}
	return stock
}

// Want reads the stock of the SKU, and checks that it equals stock.
func Want(t *testing.T, s Shop, stock service.Stock) {
	t.Helper()
	if got := MustRead(t, s, stock.SKU); got != stock {
		t.Errorf("read  %+v\nwant  %+v", got, stock)
	}
}

// ErrInvalid stands for an InvalidError, which has no sentinel.
var ErrInvalid = errors.New("InvalidError")

// Invalid returns ErrInvalid for an InvalidError, and other errors unchanged.
func Invalid(err error) error {
	if e := new(service.InvalidError); errors.As(err, &e) {
		return ErrInvalid
	}
	return err
}

// MiniAddr returns the address of a miniredis.
func MiniAddr(t testing.TB) string {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.Addr()
}
