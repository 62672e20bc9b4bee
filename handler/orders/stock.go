package orders

import (
	"github.com/gin-gonic/gin"

	"example.com/stock/handler"
	"example.com/stock/service"
)

func (h *shop) getStock(c *gin.Context) {
	_, sku, ok := h.DecodeSKU(c)
	if !ok {
		return
	}
	only, err := handler.Condition(c.Request.Header)
	if err != nil {
		h.Fail(c, err)
		return
	}
	h.getLedger(c, sku, only)
}

// putStock sets the stock. Conditions in If-Match and If-None-Match must hold.
func (h *shop) putStock(c *gin.Context) {
	f, sku, ok := h.DecodeSKU(c, "quantity")
	if !ok {
		return
	}
	quantity, only, err := handler.Quantity(c, f)
	if err != nil {
		h.Fail(c, err)
		return
	}
	h.setLedger(c, sku, quantity, only)
}

// Store returns the store of the ledger.
func (p *Part) Store() string { return p.config.Store }

// GetStock replies with the stock of a SKU in the ledger, for a part that also shows other stock.
func (p *Part) GetStock(b *handler.Base, c *gin.Context, sku service.SKU, only service.Condition) {
	(&shop{b, p.config}).getLedger(c, sku, only)
}

// SetStock sets the stock of a SKU in the ledger, for a part that also sets other stock.
func (p *Part) SetStock(b *handler.Base, c *gin.Context, sku service.SKU, quantity int64, only service.Condition) {
	(&shop{b, p.config}).setLedger(c, sku, quantity, only)
}
