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

// Streams deliver to Redis Streams, one for each SKU. The entry of an event has the id <number>-0 and one field,
// "event", with its JSON. Redis takes no id that is not larger than the last one of the stream: so a repeat, and what a
// relay sends too late, is refused, and a consumer sees every event once and in order, however often it is sent.
//
// The set StreamIndex has the names of all streams.
//
// What is not promised: that Redis keeps what it has taken. It may lose the last second in a crash, and what no replica
// had in a fail-over. The ledger still has it: the consumer sees that numbers are missing.
type Streams struct {
	client redis.UniversalClient
	log    *slog.Logger
}

// StreamIndex is the key of the set of all streams.
const StreamIndex = "stock:events"

// StreamKey is the key of the stream of a SKU, in the same slot of a cluster as its stock.
func StreamKey(sku service.SKU) string { return "stock:{" + string(sku) + "}:events" }

// StreamField is the field of an entry that has the event.
const StreamField = "event"

// trimEvery is how many events of a SKU come between two looks for what every group has taken.
const trimEvery = 100

//go:embed trim.lua
var trimSource string

// ErrOther: a stream has another event with that number. Its ledger was begun anew, or restored from an older copy. A
// person deletes the stream when its consumers have taken what is in it.
var ErrOther = errors.New("the stream has another event of this number: if the ledger was lost and begun anew, or " +
	"restored from an older copy, delete the stream")

// NewStreams returns a sink. Set c's ContextTimeoutEnabled, and MaxRetries to -1: the relay tries again itself. A nil
// log is nobody.
func NewStreams(c redis.UniversalClient, log *slog.Logger) *Streams {
	return &Streams{c, cmp.Or(log, slog.New(slog.DiscardHandler))}
}

// Deliver is one round trip, two for a repeat, and one more in a hundred events to trim.
func (s *Streams) Deliver(ctx context.Context, e Event) error {
	body, err := e.body()
	if err != nil {
		return err
	}
	key, id := StreamKey(e.Data.SKU), strconv.FormatUint(e.Data.Number, 10)+"-0"
	pipe := s.client.Pipeline()
	pipe.SAdd(ctx, StreamIndex, key) // every time, and first: a name that was lost is back with the next event
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
			s.log.Debug("stream not trimmed", "stream", key, "err", err) // at the next hundred
		}
	}
	return nil
}

// repeat tells a repeat from another event with the same number. One that is not there any more was trimmed: it is
// another if it is younger than the last entry, which is never trimmed. A version that wrote other ids is recognised.
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

// trim removes what every group has taken and acknowledged. A stream without a group stays whole.
func (s *Streams) trim(ctx context.Context, key string) error {
	return s.client.Eval(ctx, trimSource, []string{key}).Err()
}

// streamFault tells what is about the server from what is about the event, such as a key of another type.
func streamFault(err error) error {
	var answered redis.Error
	if !errors.As(err, &answered) {
		return unavailable(err)
	}
	if said := err.Error(); strings.HasPrefix(said, "WRONGTYPE") || strings.HasPrefix(said, "ERR ") {
		return err
	}
	return unavailable(err) // LOADING, OOM, READONLY, CLUSTERDOWN, NOAUTH: a person mends the server, not the event
}
