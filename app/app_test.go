package app

import (
	"flag"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/lock/locktest/servertest"
)

var servers servertest.Shared

func TestMain(m *testing.M) {
	// The settings of a developer's shell must not decide these tests.
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, envPrefix) {
			os.Unsetenv(name)
		}
	}
	// Most of these tests wait, for servers, deadlines and probes; those that compute are not parallel.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// A closed client of Redis sleeps for up to a second more.
	goleak.VerifyTestMain(servers.Around(m), goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}), goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// token is the admin token of the instances.
const token = "demo"
