package relay_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/service"
	"example.com/stock/service/order"
	"example.com/stock/service/relay"
)

func event(sku service.SKU, number uint64) relay.Event {
	return relay.NewEvent(order.Movement{
		SKU: sku, Number: number, Kind: order.Sell, Available: -2, Sold: 2, Ref: "o-1", Customer: "ann",
		At: time.Date(2026, 11, 22, 10, 0, 0, 123456000, time.UTC),
	})
}

func deliver(t *testing.T, s relay.Sink, events ...relay.Event) {
	t.Helper()
	for _, e := range events {
		if err := s.Deliver(t.Context(), e); err != nil {
			t.Fatalf("%s: %v", e.ID, err)
		}
	}
}

func TestTheFormOfAnEvent(t *testing.T) {
	text, err := json.Marshal(event("book.1", 17))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"book~1/17/62eb284efbb39e68","type":"stock.sell",` +
		`"timestamp":"2026-11-22T10:00:00.123456Z","data":{"sku":"book.1","number":17,"kind":"sell",` +
		`"received":0,"available":-2,"reserved":0,"sold":2,"ref":"o-1",` +
		`"customer":"ann","at":"2026-11-22T10:00:00.123456Z"}}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}

func TestAStreamRefusesARepeatAndWhatComesLate(t *testing.T) {
	t.Parallel()
	client := dialRedis(t, stacktest.Redis(t).Addr)
	s := relay.NewStreams(client, nil)
	deliver(t, s, event("a", 1), event("a", 2), event("a", 2), event("a", 3), event("a", 1))
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(3)) {
		t.Errorf("stream: %v", got)
	}
	earlier := event("a", 2) // of a relay before this version
	earlier.ID = "a/2"
	deliver(t, s, earlier)
	other := event("a", 2)
	other.Data.Sold = 3
	err := s.Deliver(t.Context(), other)
	if !errors.Is(err, relay.ErrOther) || errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("another event with a number that is there: %v", err)
	}
	if err := client.XTrimMinID(t.Context(), relay.StreamKey("a"), "3").Err(); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, event("a", 2)) // taken by all, and trimmed: a repeat
	other.At = other.At.Add(time.Microsecond)
	if err := s.Deliver(t.Context(), other); !errors.Is(err, relay.ErrOther) {
		t.Errorf("another event, with a number that was there, and younger than the last: %v", err)
	}
}

// What a group has not taken, or has pending, is not trimmed. Nor is a stream without a group.
func TestAStreamIsTrimmedOfWhatEveryGroupHasTaken(t *testing.T) {
	t.Parallel()
	client := dialRedis(t, stacktest.Redis(t).Addr)
	var said strings.Builder
	s := relay.NewStreams(client, slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug})))
	ctx, key := t.Context(), relay.StreamKey("a")
	next := uint64(1)
	upTo := func(n uint64) {
		for ; next <= n; next++ {
			deliver(t, s, event("a", next))
		}
	}
	first := func(want uint64, why string) {
		t.Helper()
		if got := stream(t, client, "a"); len(got) == 0 || got[0] != want {
			t.Errorf("%s: stream begins with %v, want %d", why, got, want)
		}
	}
	take := func(group string, n int64, ack func(id string) bool) {
		t.Helper()
		read, err := client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: "c", Streams: []string{key, ">"}, Count: n,
		}).Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range read[0].Messages {
			if ack(entry.ID) {
				client.XAck(ctx, key, group, entry.ID)
			}
		}
	}
	all := func(string) bool { return true }
	upTo(100)
	first(1, "no group")
	for _, group := range []string{"one", "two"} {
		if err := client.XGroupCreate(ctx, key, group, "0").Err(); err != nil {
			t.Fatal(err)
		}
	}
	take("one", 100, all)
	upTo(200)
	first(1, "two has taken nothing")
	take("one", 100, all)
	take("two", 150, func(id string) bool { return id != "42-0" })
	upTo(300)
	first(42, "two has 42 pending")
	client.XAck(ctx, key, "two", "42-0")
	upTo(400)
	first(151, "two has taken 150")
	take("one", 200, all)
	take("two", 250, all)
	upTo(500)
	first(401, "both have taken 400")
	if got := stream(t, client, "a"); len(got) != 100 {
		t.Errorf("%d entries are left", len(got))
	}
	if said.Len() > 0 {
		t.Errorf("it said %q", said.String())
	}
}

// The last entry stays though all have taken it: what comes after a restoration is told from a repeat by it.
func TestTheLastEntryOfAStreamIsNotTrimmed(t *testing.T) {
	t.Parallel()
	client := dialRedis(t, stacktest.Redis(t).Addr)
	s := relay.NewStreams(client, nil)
	for n := range uint64(99) {
		deliver(t, s, event("a", n+1))
	}
	if err := client.XGroupCreate(t.Context(), relay.StreamKey("a"), "ahead", "100").Err(); err != nil {
		t.Fatal(err)
	}
	deliver(t, s, event("a", 100))
	if got := stream(t, client, "a"); !slices.Equal(got, []uint64{100}) {
		t.Errorf("stream: %v", got)
	}
}

func TestWhatAFaultOfTheStreamIsAbout(t *testing.T) {
	t.Parallel()
	server := stacktest.Redis(t)
	client := dialRedis(t, server.Addr)
	s := relay.NewStreams(client, nil)
	if err := client.Set(t.Context(), relay.StreamKey("taken"), "by something else", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), event("taken", 1)); err == nil || errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("key of another type: %v, want a refusal of the event", err)
	}
	late := event("a", 1)
	late.At = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC) // has no form in JSON
	if err := s.Deliver(t.Context(), late); err == nil || errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("event that cannot be written: %v, want a refusal of the event", err)
	}
	if err := client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), event("a", 1)); !errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("out of memory: %v, want unavailable", err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := s.Deliver(t.Context(), event("a", 1)); !errors.Is(err, relay.ErrUnavailable) {
		t.Errorf("killed: %v, want unavailable", err)
	}
}

// Redis hangs and comes back: nothing is lost, doubled or parked.
func TestStreamsThatAreAwayAndBack(t *testing.T) {
	t.Parallel()
	s, _ := newShelf(t)
	server := stacktest.Redis(t)
	client := dialRedis(t, server.Addr)
	c := quick(s, relay.NewStreams(client, nil), newLatch())
	c.Attempts = 1
	start(t, c)
	s.receive(t, "a", 5)
	emptied(t, s)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		s.receive(t, service.SKU(fmt.Sprint("b", i)), 5)
	}
	s.receive(t, "a", 5)
	time.Sleep(1500 * time.Millisecond) // one time-out of the client
	if n := s.undelivered(t); n != 30 {
		t.Errorf("%d undelivered while Redis hangs, want 30", n)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	emptied(t, s)
	if got := stream(t, client, "a"); !slices.Equal(got, numbers(10)) {
		t.Errorf("stream: %v", got)
	}
	if letters, err := s.Parked(t.Context(), "", 10); err != nil || len(letters) > 0 {
		t.Errorf("parked: %v, %v", letters, err)
	}
}

// The streams of a cluster are in the slots of their SKUs, and the index is in another.
func TestStreamsOnACluster(t *testing.T) {
	t.Parallel()
	cluster, err := stacktest.Start(t, stack.Options{}).StartRedisCluster(t.Context(), 3)
	stacktest.Started(t, err)
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: cluster.Addrs(), IsClusterMode: true, ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	t.Cleanup(func() { _ = client.Close() })
	s := relay.NewStreams(client, nil)
	const skus, each = 12, 100
	for i := range skus {
		sku := service.SKU(fmt.Sprint("sku-", i))
		key := relay.StreamKey(sku)
		deliver(t, s, event(sku, 1), event(sku, 1))
		if err := client.XGroupCreate(t.Context(), key, "g", "$").Err(); err != nil {
			t.Fatal(err)
		}
		for n := range uint64(each - 1) {
			deliver(t, s, event(sku, n+2))
		}
		if left, err := client.XLen(t.Context(), key).Result(); err != nil || left != each-1 {
			t.Errorf("%s: %d entries, %v, want all but the one that the group has taken", sku, left, err)
		}
	}
	if n, err := client.SCard(t.Context(), relay.StreamIndex).Result(); err != nil || n != skus {
		t.Errorf("%d streams in the index, %v", n, err)
	}
}
