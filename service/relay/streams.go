package relay

import (
	"cmp"
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service"
)

// Streams delivers to Redis Streams, one for each SKU. The entry of an event has the id <number>-0 and one field,
// "event", with its JSON. Redis refuses an id that is not larger than the last id of the stream. So repeats and late
// copies are refused, and a consumer sees every event once and in order.
//
// The set StreamIndex has the names of all streams.
//
// Redis may lose entries: those of the last second in a crash, and those that no replica had in a fail-over. The ledger
// still has the movements, and a consumer sees the gap in the numbers.
type Streams struct {
	client redis.UniversalClient
	log    *slog.Logger
}

// StreamIndex is the key of the set of all streams.
const StreamIndex = "stock:events"

// StreamKey is the key of the stream of a SKU, in the same slot of a cluster as its stock.
func StreamKey(sku service.SKU) string { return "stock:{" + string(sku) + "}:events" }

// StreamField is the name of the entry's field that contains the event.
const StreamField = "event"

// trimEvery is the number of events of a SKU between two trims.
const trimEvery = 100

//go:embed trim.lua
var trimSource string

// ErrOther: the stream has another event with that number, because the ledger was recreated or restored from an older
// copy. A person must delete the stream after its consumers have read all of it.
var ErrOther = errors.New("the stream has another event of this number: if the ledger was lost and recreated, or " +
	"restored from an older copy, delete the stream")

// NewStreams returns a sink. c must have ContextTimeoutEnabled and MaxRetries -1, because the relay retries. log may
// be nil.
func NewStreams(c redis.UniversalClient, log *slog.Logger) *Streams {
	return &Streams{c, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Deliver takes one round trip, two for a repeat, and one more every trimEvery events to trim the stream.
func (s *Streams) Deliver(ctx context.Context, e Event) error {
	body, err := e.body()
	if err != nil {
		return err
	}
	key, id := StreamKey(e.Data.SKU), strconv.FormatUint(e.Data.Number, 10)+"-0"
	pipe := s.client.Pipeline()
	pipe.SAdd(ctx, StreamIndex, key) // repeated with each event, in case the set lost the name
	add := pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: id, Values: []any{StreamField, body}})
	_, err = pipe.Exec(ctx)
	if refused := add.Err(); refused != nil && strings.Contains(refused.Error(), "equal or smaller") {
		return s.repeat(ctx, key, id, e)
	}
	if err != nil {
		return streamFault(err)
	}
	if e.Data.Number%trimEvery == 0 {
		if err := s.trim(ctx, key); err != nil {
			s.log.Debug("stream not trimmed", "stream", key, "err", err) // tried again after trimEvery events
		}
	}
	return nil
}

// repeat returns nil if the event is a repeat, and ErrOther if the stream has another event with its number. If the
// entry with that number was trimmed, e is another event if it is younger than the last entry, which is never
// trimmed. repeat compares movements, not ids, because older versions wrote other ids.
func (s *Streams) repeat(ctx context.Context, key, id string, e Event) error {
	pipe := s.client.Pipeline()
	same, last := pipe.XRange(ctx, key, id, id), pipe.XRevRangeN(ctx, key, "+", "-", 1)
	if _, err := pipe.Exec(ctx); err != nil {
		return streamFault(err)
	}
	there, trimmed := same.Val(), false
	if len(there) == 0 {
		there, trimmed = last.Val(), true
	}
	if len(there) == 0 {
		return nil
	}
	text, _ := there[0].Values[StreamField].(string)
	var known Event
	if err := json.Unmarshal([]byte(text), &known); err != nil {
		return fmt.Errorf("%s %s: %w", key, there[0].ID, err)
	}
	if trimmed && e.At.After(known.At) || !trimmed && digest(known.Data) != digest(e.Data) {
		return fmt.Errorf("%s %s: %w", key, id, ErrOther)
	}
	return nil
}

// trim removes the entries that every consumer group has acknowledged. A stream without a group is not trimmed.
func (s *Streams) trim(ctx context.Context, key string) error {
	return s.client.Eval(ctx, trimSource, []string{key}).Err()
}

// streamFault makes an error match ErrUnavailable if it concerns the server, but not if it concerns the event, such as
// a key of the wrong type.
func streamFault(err error) error {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return unavailable(err)
	}
	if said := err.Error(); strings.HasPrefix(said, "WRONGTYPE") || strings.HasPrefix(said, "ERR ") {
		return err
	}
	return unavailable(err) // LOADING, OOM, READONLY, CLUSTERDOWN, NOAUTH: the fault is in the server, not in the event
}
