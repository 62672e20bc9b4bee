package checkout_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/servertest"
)

// A stream has the events of all SKUs. It is read whole, and then what is new, from a number on. What is no event and a
// Redis that does not answer are errors of the feed.
func TestAStreamIsReadWhole(t *testing.T) {
	t.Parallel()
	server := servertest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { client.Close() })
	add := func(sku string, number int, event string) {
		t.Helper()
		id := fmt.Sprintf("%s.%d", sku, number)
		add := redis.XAddArgs{Stream: "orders", Values: []string{"id", id, "event", event}}
		if err := client.XAdd(t.Context(), &add).Err(); err != nil {
			t.Fatal(err)
		}
	}
	movement := func(sku string, number int) { add(sku, number, fmt.Sprintf(`{"sku":%q,"number":%d}`, sku, number)) }
	const last = 2001 // two pages and one more
	for n := 1; n < last; n++ {
		movement("a", n)
	}
	movement("b", 7)
	movement("a", 2)

	feed := checkout.NewStream(server.Addr, "orders")
	defer feed.Close()
	read := func(sku string, after uint64) []checkout.Event {
		t.Helper()
		events, err := feed.Events(t.Context(), sku, after)
		if err != nil {
			t.Fatal(err)
		}
		return events
	}
	if n := len(read("a", 0)); n != last {
		t.Errorf("%d events, want %d", n, last)
	}
	movement("a", last)
	for _, after := range []uint64{2, 1001, 2000, 2001} {
		events := read("a", after)
		if len(events) != last-int(after) {
			t.Fatalf("after %d: %d events", after, len(events))
		}
		for i, e := range events {
			if n := after + uint64(i) + 1; e.Data.Number != n || e.ID != fmt.Sprint("a.", n) || e.Repeat {
				t.Fatalf("after %d, event %d is %+v", after, i, e)
			}
		}
	}
	if events := read("a", 1); events[last-2].ID != "a.2" || !events[last-2].Repeat || len(read("b", 0)) != 1 {
		t.Errorf("the last but one is %+v", events[last-2])
	}
	add("b", 8, "no event")
	if _, err := feed.Events(t.Context(), "b", 0); !isOf(err, feed, "decode an event") {
		t.Errorf("no event: %v", err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := feed.Events(t.Context(), "a", 0); !isOf(err, feed, "refused") {
		t.Errorf("a Redis that is gone: %v", err)
	}
}

// isOf reports whether an error is the feed's, and says so.
func isOf(err error, feed checkout.Feed, says string) bool {
	target, is := errors.AsType[*loadtest.TargetError](err)
	return is && target.URL == feed.Name() && strings.Contains(err.Error(), says)
}
