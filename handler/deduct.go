package handler

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// labFields weaken or stress the protection of a lock. Only the admin may send them, and only in lab mode.
var labFields = []string{"hold", "fencing", "heed_loss", "pause", "nested"}

// The fields of both forms of a deduction.
var (
	deductFields   = slices.Concat([]string{"sku", "quantity", "wait", "store"}, labFields)
	resourceFields = slices.Concat([]string{"quantity", "wait", "strategy", "store"}, labFields)
)

// deduct sells by the strategy whose endpoint was asked.
func (h *handler) deduct(c *gin.Context, strategy string) error {
	noteOf(c).strategy = strategy
	f, err := decode(c, deductFields...)
	if err != nil {
		return err
	}
	sku := h.DefaultSKU
	if f.has("sku") {
		if sku, err = service.ParseSKU(f["sku"]); err != nil {
			return err
		}
	}
	return h.sell(c, f, strategy, sku)
}

// deductResource is deduct in resource form: POST /v1/stock/{sku}/deduct with "strategy".
func (h *handler) deductResource(c *gin.Context) error {
	f, err := decode(c, resourceFields...)
	if err != nil {
		return err
	}
	strategy := f["strategy"]
	noteOf(c).strategy = shorten(strategy)
	sku, err := service.ParseSKU(c.Param("sku"))
	if err != nil {
		return err
	}
	if strategy == "" {
		return service.Invalid("strategy", "strategy")
	}
	if !slices.ContainsFunc(h.Strategies, func(s Strategy) bool { return s.Name == strategy }) {
		return fmt.Errorf("%w %q", service.ErrUnknownStrategy, shorten(strategy))
	}
	return h.sell(c, f, strategy, sku)
}

// sell sells and replies with the receipt.
func (h *handler) sell(c *gin.Context, f fields, strategy string, sku service.SKU) error {
	req := service.Request{Strategy: strategy, SKU: sku, Store: f["store"], RequestID: requestID(c)}
	if err := fill(f, &req); err != nil {
		return err
	}
	if err := h.checkLab(c, f); err != nil {
		return err
	}
	key, err := deductionKey(c, req)
	if err != nil {
		return err
	}
	req.Key = key
	receipt, err := h.Service.Deduct(c.Request.Context(), req)
	switch {
	case errors.Is(err, service.ErrUnknownStrategy): // a name from outside must not become a metric label
		return err
	case err != nil:
		h.Meter.Deduction(strategy, h.problemOf(err))
		return err
	case receipt.Replayed: // the reply was stored with the idempotency key, and is sent again
		h.Meter.Deduction(strategy, "replayed")
		c.Header("Idempotent-Replayed", "true")
	default:
		h.Meter.Deduction(strategy, "accepted")
	}
	c.JSON(http.StatusOK, receiptReply(receipt))
	return nil
}

// checkLab refuses the lab's fields, unless the admin sends them in lab mode.
func (h *handler) checkLab(c *gin.Context, f fields) error {
	if !f.has(labFields...) {
		return nil
	}
	if !h.Lab {
		return service.Invalid(strings.Join(labFields, ", "), "lab")
	}
	return h.checkAdmin(c.Request.Header)
}

// deductionKey returns the idempotency key of a deduction. All clients share one space of keys, and must choose random
// keys. Two requests that differ only in the wait or in the lab's fields count as
// the same request.
func deductionKey(c *gin.Context, req service.Request) (service.Key, error) {
	key, err := idempotencyKey(c.Request.Header)
	if err != nil {
		return service.Key{}, err
	}
	return service.NewKey(c.Request.Method+" "+c.Request.URL.Path, key, struct {
		Strategy, Store string
		SKU             service.SKU
		Quantity        int64
	}{req.Strategy, req.Store, req.SKU, req.Quantity})
}

// idempotencyKey returns the key of a request, or "".
func idempotencyKey(header http.Header) (string, error) {
	switch values := header.Values(service.KeyHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return service.ParseKey(values[0])
	default:
		return "", service.Invalid(service.KeyHeader, "twice")
	}
}

// fill copies the fields that both forms of the endpoint share into req.
func fill(f fields, req *service.Request) (err error) {
	if req.Quantity, err = f.number("quantity", 1, 1, service.MaxQuantity); err != nil {
		return err
	}
	if req.Wait, err = duration(f, "wait"); err != nil {
		return err
	}
	hold, err := duration(f, "hold")
	if err != nil {
		return err
	}
	if hold != nil {
		req.Lab.Hold = *hold
	}
	fenced, err := toggle(f, "fencing")
	if err != nil {
		return err
	}
	heed, err := toggle(f, "heed_loss")
	if err != nil {
		return err
	}
	req.Lab.Unfenced, req.Lab.IgnoreLoss = !fenced, !heed
	return fillPauses(f, req)
}

// fillPauses copies the lab's pause points and nesting into req.
func fillPauses(f fields, req *service.Request) (err error) {
	if f.has("pause") {
		if req.Lab.Pause, err = service.ParsePoints(f["pause"]); err != nil {
			return err
		}
	}
	switch req.Lab.Nested = service.Nesting(f["nested"]); req.Lab.Nested {
	case "", service.NestedHolder, service.NestedStranger:
		return nil
	default:
		return service.Invalid("nested", "nested")
	}
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
	ReadAt     time.Time   `json:"read_at"`
	WrittenAt  time.Time   `json:"written_at"`
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
		tries = 0 // one try is omitted from the reply
	}
	return deductReply{
		OrderID: r.ID, SKU: r.SKU, Quantity: r.Quantity, Read: r.Read, Remaining: r.Remaining,
		Version: r.Version, Epoch: r.Epoch, Strategy: r.Strategy, Store: r.Store, Instance: r.Instance,
		Fence: uint64(r.HolderFence), Segment: r.Segment, Tries: tries, Wakeups: r.Wakeups,
		WaitedMS: milliseconds(r.Waited), HeldMS: milliseconds(r.Held),
		AcquiredAt: r.AcquiredAt.UTC(), ReleasedAt: r.ReleasedAt.UTC(),
		ReadAt: r.ReadAt.UTC(), WrittenAt: r.WrittenAt.UTC(), LeaseLost: r.LeaseLost,
		Batch: (*batchReply)(r.Batch),
	}
}

// duration returns a duration from 0 to MaxWait, or nil if it is absent.
func duration(f fields, name string) (*time.Duration, error) {
	text, ok := f[name]
	if !ok {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > service.MaxWait {
		return nil, service.Invalid(name, "ttl", "least", "0s",
			"most", fmt.Sprintf("%.0fs", service.MaxWait.Seconds()), "example", "500ms or 2s")
	}
	return &d, nil
}

// toggle returns false if the field says "off".
func toggle(f fields, name string) (bool, error) {
	switch text, ok := f[name]; {
	case !ok || text == "on":
		return true, nil
	case text == "off":
		return false, nil
	default:
		return false, service.Invalid(name, "toggle")
	}
}
