package scenario

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lock that is not had until ctx ends is no error, whichever reports the end first: ctx or the connection.
func TestNaiveLockGivesUp(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := redis.NewClient(&redis.Options{
		Addr: l.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	defer c.Close()
	for range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		ok, err := (&naiveLock{redis: c, key: "K", token: "T", ttl: time.Second}).lock(ctx)
		cancel()
		if ok || err != nil {
			t.Fatalf("lock: %v, %v", ok, err)
		}
	}
}
