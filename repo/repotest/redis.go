package repotest

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// go-redis prints each refused connection; quiet turns this off.
var _ = quiet()

func quiet() bool {
	logging.Disable()
	return true
}

// DialRedis returns a client with the options of the service.
func DialRedis(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{addr}, ContextTimeoutEnabled: true,
		DialTimeout: 5 * time.Second, DialerRetries: 1, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}
