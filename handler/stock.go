package handler

import (
	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// A StockReply is the stock of a SKU.
type StockReply struct {
	SKU      service.SKU `json:"sku"`
	Store    string      `json:"store"`
	Quantity int64       `json:"quantity"`
	Initial  int64       `json:"initial"`
	Sold     int64       `json:"sold"`
	Version  uint64      `json:"version"`
	Epoch    uint64      `json:"epoch"`
	Fence    uint64      `json:"fence"`
	Guard    string      `json:"guard"`
}

// DecodeSKU reads a request about one SKU.
func (b *Base) DecodeSKU(c *gin.Context, allowed ...string) (f Fields, sku service.SKU, ok bool) {
	f, err := Decode(c, allowed...)
	if err == nil {
		sku, err = service.ParseSKU(c.Param("sku"))
	}
	if err != nil {
		b.Fail(c, err)
		return nil, "", false
	}
	return f, sku, true
}

// Quantity returns the new quantity of a request that sets stock, and the condition in its header.
func Quantity(c *gin.Context, f Fields) (quantity int64, only service.Condition, err error) {
	if !f.Has("quantity") {
		return 0, only, Missing("quantity")
	}
	if quantity, err = f.Number("quantity", 0, 0, service.MaxStock); err == nil {
		only, err = Condition(c.Request.Header)
	}
	return quantity, only, err
}

// SetETag sets the header ETag to the version of the stock in the reply.
func SetETag(c *gin.Context, tag string) { c.Header("ETag", `"`+tag+`"`) }
