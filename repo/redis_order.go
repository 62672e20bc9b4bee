package repo

import (
	"encoding/json"
	"fmt"
	"time"

	"example.com/stock/service"
)

// An order in Redis is JSON. What Deduct's script finds out comes in front, so that the script can put it there without parsing.
type (
	redisOrder struct {
		redisSight
		redisTail
	}
	redisSight struct {
		Read      int64  `json:"read"`
		Remaining int64  `json:"remaining"`
		Version   uint64 `json:"version"`
		Epoch     uint64 `json:"epoch"`
	}
	redisTail struct {
		ID        string    `json:"order_id"`
		Quantity  int64     `json:"quantity"`
		Strategy  string    `json:"strategy"`
		Instance  string    `json:"instance"`
		RequestID string    `json:"request_id"`
		Fence     uint64    `json:"fence"`
		Segment   int       `json:"segment,omitempty"`
		CreatedAt time.Time `json:"created_at"`
	}
)

func tail(o service.Order) redisTail {
	return redisTail{o.ID, o.Quantity, o.Strategy, o.Instance, o.RequestID, o.Fence, o.Segment, o.CreatedAt.UTC()}
}

// encode cannot fail: the types have no value that is not JSON, save times after the year 9999.
func encode(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func encodeOrder(o service.Order) string {
	return encode(redisOrder{redisSight{o.Read, o.Remaining, o.Version, o.Epoch}, tail(o)})
}

// encodeOrderTail leaves out the opening brace and what Deduct finds out.
func encodeOrderTail(o service.Order) string { return encode(tail(o))[1:] }

func decodeOrder(sku service.SKU, text string) (service.Order, error) {
	var o redisOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return service.Order{}, fmt.Errorf("decode order: %w", err)
	}
	return service.Order{
		ID: o.ID, SKU: sku, Quantity: o.Quantity, Read: o.Read, Remaining: o.Remaining, Version: o.Version, Epoch: o.Epoch,
		Strategy: o.Strategy, Instance: o.Instance, RequestID: o.RequestID, Fence: o.Fence, Segment: o.Segment, CreatedAt: o.CreatedAt,
	}, nil
}
