package strategy_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service/strategy"
)

// Masters that cannot be a redlock: everybody is told that it cannot be used, and only the log which of them is wrong.
func TestRedlockOfUnusableMasters(t *testing.T) {
	t.Parallel()
	s, err := strategy.Lookup("redlock")
	if err != nil {
		t.Fatal(err)
	}
	var list []*redis.Client
	for _, addr := range []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:1"} {
		c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
		defer c.Close()
		list = append(list, c)
	}
	var log bytes.Buffer
	l := s.Lock(strategy.Servers{Redlock: list, Log: slog.New(slog.NewTextHandler(&log, nil))})
	_, acquired := l.Acquire(t.Context(), "k", lock.Options{})
	_, inspected := lock.Inspect(t.Context(), l, "k")
	_, listed := l.(driver.Lister).Keys(t.Context())
	for what, err := range map[string]error{"Acquire": acquired, "Inspect": inspected, "Keys": listed} {
		var down *driver.DownError
		if !errors.As(err, &down) || strings.Contains(down.Error(), "10.0.0") ||
			down.Reason != "unusable-masters" {
			t.Errorf("%s: %v, want a DownError without an address", what, err)
		}
	}
	if !strings.Contains(log.String(), "10.0.0.1:1 is listed twice") {
		t.Errorf("the log: %s", log.String())
	}
}
