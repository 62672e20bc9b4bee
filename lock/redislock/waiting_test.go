package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// queued reports whether n contenders wait for a key of a Watchdog.
func queued(t *testing.T, c redis.UniversalClient, key string, n int64) func() bool {
	return func() bool { return c.LLen(t.Context(), "watchdog:{"+key+"}:queue").Val() == n }
}

// A release whose message is refused is a release.
func TestAReleaseThatMayNotPublish(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t).Addr
	err := client(t, addr).Do(t.Context(), "ACL", "SETUSER", "quiet", "on", ">pw", "~*", "+@all", "resetchannels").Err()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"watchdog", "rlock"} {
		l := open(t, name, closer(t, dialAs("quiet", addr)), time.Hour)
		for range 2 {
			release(t, acquire(t, l, t.Name()))
		}
	}
}
