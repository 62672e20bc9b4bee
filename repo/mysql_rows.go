package repo

import (
	"time"

	"example.com/stock/service"
)

// stockRow is a row of stock. It is written by map or in full, never by Updates(stockRow{...}): gorm leaves zero values out of that, so
// stock sold down to 0 would stay as it was.
type stockRow struct {
	SKU      string `gorm:"column:sku;primaryKey"`
	Quantity int64  `gorm:"column:quantity"`
	Initial  int64  `gorm:"column:initial"`
	Sold     int64  `gorm:"column:sold"`
	Version  uint64 `gorm:"column:version"`
	Epoch    uint64 `gorm:"column:epoch"`
	Fence    uint64 `gorm:"column:fence"`
	Guard    string `gorm:"column:guard"`
}

// TableName is asked by gorm.
func (stockRow) TableName() string { return "stock" }

func (r stockRow) stock() service.Stock {
	return service.Stock{
		SKU: service.SKU(r.SKU), Quantity: r.Quantity, Initial: r.Initial, Sold: r.Sold,
		Version: r.Version, Epoch: r.Epoch, Fence: r.Fence, Guard: r.Guard,
	}
}

// orderRow is a row of orders.
type orderRow struct {
	Seq       uint64    `gorm:"column:seq;primaryKey;autoIncrement"`
	ID        string    `gorm:"column:id"`
	SKU       string    `gorm:"column:sku"`
	Epoch     uint64    `gorm:"column:epoch"`
	Version   uint64    `gorm:"column:version"`
	Quantity  int64     `gorm:"column:quantity"`
	Read      int64     `gorm:"column:quantity_read"`
	Remaining int64     `gorm:"column:quantity_left"`
	Strategy  string    `gorm:"column:strategy"`
	Instance  string    `gorm:"column:instance"`
	RequestID string    `gorm:"column:request_id"`
	Fence     uint64    `gorm:"column:fence"`
	Segment   int       `gorm:"column:segment"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
}

// TableName is asked by gorm.
func (orderRow) TableName() string { return "orders" }

func (r *orderRow) order() service.Order {
	return service.Order{
		ID: r.ID, SKU: service.SKU(r.SKU), Quantity: r.Quantity, Read: r.Read, Remaining: r.Remaining, Version: r.Version, Epoch: r.Epoch,
		Strategy: r.Strategy, Instance: r.Instance, RequestID: r.RequestID, Fence: r.Fence, Segment: r.Segment, CreatedAt: r.CreatedAt,
	}
}
