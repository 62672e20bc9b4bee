package checkout_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A stream is read whole, from a number on. What is no event and a Redis that does not answer are errors of the feed.
func TestStreamsAreReadWhole(t *testing.T) {
	t.Parallel()
	server := stacktest.Redis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { client.Close() })
	add := func(sku string, number int, event string) {
		t.Helper()
		key := "stock:{" + sku + "}:events"
		err := client.XAdd(t.Context(), &redis.XAddArgs{
			Stream: key, ID: strconv.Itoa(number) + "-0", Values: []string{"event", event},
		}).Err()
		if err != nil {
			t.Fatal(err)
		}
	}
	const last = 2001 // two pages and one more
	for n := 1; n <= last; n++ {
		add("a", n, fmt.Sprintf(`{"id":"a:%d","type":"stock.sold","data":{"sku":"a","number":%d}}`, n, n))
	}
	add("b", 7, "no event")

	feed := checkout.NewStreams(server.Addr)
	defer feed.Close()
	for _, after := range []uint64{0, 1, 1001, 2000, 2001} {
		events, err := feed.Events(t.Context(), "a", after)
		if err != nil || len(events) != last-int(after) {
			t.Fatalf("after %d: %d events, %v", after, len(events), err)
		}
		for i, e := range events {
			if n := after + uint64(i) + 1; e.Data.Number != n || e.Entry != fmt.Sprint(n, "-0") {
				t.Fatalf("after %d, event %d is %+v", after, i, e)
			}
		}
	}
	if _, err := feed.Events(t.Context(), "b", 0); !isOf(err, feed, "entry 7-0 of b") {
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
