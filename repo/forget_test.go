package repo_test

import (
	"fmt"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Setting the stock removes the orders of that SKU whose epoch is over and which are older than KeepOrders, and no
// others.
func TestSetForgetsOldOrders(t *testing.T) {
	db := migrated(t, servers.MariaDB(t))
	s := repo.NewMySQL(db)
	old := time.Now().Add(-repo.KeepOrders - time.Minute)
	sell := func(sku service.SKU, name string, at time.Time) {
		t.Helper()
		o := order(mustRead(t, s, sku))
		o.ID = name
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
		if err := db.Exec("UPDATE orders SET created_at = ? WHERE id = ?", at.UTC(), name).Error; err != nil {
			t.Fatal(err)
		}
	}
	left := func(want ...string) {
		t.Helper()
		var got []string
		if err := db.Raw("SELECT id FROM orders ORDER BY id").Scan(&got).Error; err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("orders %v, want %v", got, want)
		}
	}
	mustSet(t, s, "sku", 100)
	mustSet(t, s, "other", 100)
	sell("sku", "1 old", old)
	sell("sku", "1 young", time.Now())
	sell("other", "other old", old)
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")
	sell("sku", "2 old", old)
	if err := s.Seed(short(t), "sku", 100); err != nil {
		t.Fatal(err)
	}
	left("1 young", "2 old", "other old") // the epoch is not over
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")

	// More than are looked at at a time.
	err := db.Exec("INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read, quantity_left, strategy, instance, request_id, fence, created_at)"+
		" SELECT CONCAT('many-', seq), 'sku', 0, 1, 1, 1, 0, 'none', '', '', 0, ? FROM seq_1_to_2500", old).Error
	if err != nil {
		t.Fatal(err)
	}
	mustSet(t, s, "sku", 100)
	left("1 young", "other old")
}
