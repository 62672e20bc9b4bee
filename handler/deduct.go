package handler

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/order"
	"example.com/stock/service"
)

// labFields change what a lock protects against. Only the admin may send them, and only in lab mode.
var labFields = []string{"hold", "fencing", "heed_loss", "pause", "nested"}

// deduct is the endpoint of one strategy.
func (h *handler) deduct(c *gin.Context, strategy string) {
	f, err := decode(c, h.deductFields...)
	sku := h.DefaultSKU
	switch {
	case err != nil:
	case f.has("sku"):
		sku, err = service.ParseSKU(f["sku"])
	case h.Profile == Shop:
		err = missing("sku")
	}
	h.sell(c, f, strategy, sku, err)
}

// deductResource is deduct in resource form: POST /v1/stock/{sku}/deduct with "strategy".
func (h *handler) deductResource(c *gin.Context) {
	f, err := decode(c, slices.Concat([]string{"quantity", "wait"}, h.choices("strategy", "store"), labFields)...)
	var sku service.SKU
	if err == nil {
		sku, err = service.ParseSKU(c.Param("sku"))
	}
	strategy := f["strategy"]
	switch {
	case h.Profile == Shop:
		strategy = h.Strategies[0].Name
	case err == nil && strategy == "":
		err = &service.InvalidError{Field: "strategy", Reason: "must name one of GET /v1/strategies"}
	}
	h.sell(c, f, strategy, sku, err)
}

func (h *handler) sell(c *gin.Context, f fields, strategy string, sku service.SKU, err error) {
	c.Set(strategyKey, shorten(strategy))
	req := service.Request{Strategy: strategy, SKU: sku, Store: f["store"], RequestID: requestID(c)}
	if err == nil {
		err = f.fill(&req)
	}
	if err != nil {
		h.fail(c, err)
		return
	}
	if f.has(labFields...) {
		if !h.Lab {
			h.fail(c, &service.InvalidError{
				Field: strings.Join(labFields, ", "), Reason: "need an instance in lab mode (STOCK_LAB=true)",
			})
			return
		}
		if !h.admin(c) {
			return
		}
	}
	if req.Key, err = deductionKey(c, req); err != nil {
		h.fail(c, err)
		return
	}
	receipt, err := h.Seller.Deduct(c.Request.Context(), req)
	if err != nil {
		row := h.rowOf(err)
		if row.is != service.ErrUnknownStrategy { // a name from outside must not become a metric label
			h.Meter.Deduction(strategy, row.kind.name)
		}
		h.failAs(c, row, err)
		return
	}
	if receipt.Replayed {
		h.Meter.Deduction(strategy, "replayed")
	} else {
		h.Meter.Deduction(strategy, "accepted")
	}
	replay(c, receipt.Replayed)
	c.JSON(http.StatusOK, receiptReply(receipt))
}

// deductionKey is the idempotency key of a deduction. Nobody says who he is here, so that all callers share their keys:
// a client takes random ones. How long to wait, and what the lab adds, is not what is asked for.
func deductionKey(c *gin.Context, req service.Request) (service.Key, error) {
	key, err := idempotencyKey(c.Request.Header)
	if err != nil {
		return service.Key{}, err
	}
	return order.NewKey("", c.Request.Method+" "+c.Request.URL.Path, key, struct {
		Strategy, Store string
		SKU             service.SKU
		Quantity        int64
	}{req.Strategy, req.Store, req.SKU, req.Quantity})
}

// fill copies the fields that both forms of the endpoint share into req.
func (f fields) fill(req *service.Request) (err error) {
	if req.Quantity, err = f.number("quantity", 1, 1, service.MaxQuantity); err != nil {
		return err
	}
	if req.Wait, err = f.duration("wait"); err != nil {
		return err
	}
	hold, err := f.duration("hold")
	if err != nil {
		return err
	}
	if hold != nil {
		req.Lab.Hold = *hold
	}
	fenced, err := f.toggle("fencing")
	if err != nil {
		return err
	}
	heed, err := f.toggle("heed_loss")
	if err != nil {
		return err
	}
	req.Lab.Unfenced, req.Lab.IgnoreLoss = !fenced, !heed
	return f.fillPauses(req)
}

// fillPauses copies the fields into req that say where the lab makes the sale wait, and what is nested in it.
func (f fields) fillPauses(req *service.Request) (err error) {
	if f.has("pause") {
		if req.Lab.Pause, err = service.ParsePoints(f["pause"]); err != nil {
			return err
		}
	}
	switch req.Lab.Nested = service.Nesting(f["nested"]); req.Lab.Nested {
	case "", service.NestedHolder, service.NestedStranger:
		return nil
	default:
		return &service.InvalidError{Field: "nested", Reason: "must be holder or stranger"}
	}
}

func (f fields) has(names ...string) bool {
	for _, name := range names {
		if _, ok := f[name]; ok {
			return true
		}
	}
	return false
}

type deductReply struct {
	OrderID    string      `json:"order_id"`
	SKU        service.SKU `json:"sku"`
	Quantity   int64       `json:"quantity"`
	Read       int64       `json:"read"`
	Remaining  int64       `json:"remaining"`
	Version    uint64      `json:"version"`
	Epoch      uint64      `json:"epoch"`
	Strategy   string      `json:"strategy"`
	Store      string      `json:"store"`
	Instance   string      `json:"instance"`
	Fence      uint64      `json:"fence"`
	Segment    int         `json:"segment,omitempty"`
	Tries      int         `json:"tries,omitempty"`
	Wakeups    int         `json:"wakeups,omitempty"`
	WaitedMS   float64     `json:"waited_ms"`
	HeldMS     float64     `json:"held_ms"`
	AcquiredAt time.Time   `json:"acquired_at"`
	ReleasedAt time.Time   `json:"released_at"`
	LeaseLost  bool        `json:"lease_lost,omitempty"`
	Batch      *batchReply `json:"batch,omitempty"`
}

type batchReply struct {
	ID    string `json:"id"`
	Place int    `json:"place"`
	Size  int    `json:"size"`
}

func receiptReply(r service.Receipt) deductReply {
	tries := r.Tries
	if tries == 1 {
		tries = 0 // the usual number is left out
	}
	return deductReply{
		OrderID: r.ID, SKU: r.SKU, Quantity: r.Quantity, Read: r.Read, Remaining: r.Remaining,
		Version: r.Version, Epoch: r.Epoch, Strategy: r.Strategy, Store: r.Store, Instance: r.Instance,
		Fence: uint64(r.HolderFence), Segment: r.Segment, Tries: tries, Wakeups: r.Wakeups,
		WaitedMS: milliseconds(r.Waited), HeldMS: milliseconds(r.Held),
		AcquiredAt: r.AcquiredAt.UTC(), ReleasedAt: r.ReleasedAt.UTC(), LeaseLost: r.LeaseLost,
		Batch: (*batchReply)(r.Batch),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
