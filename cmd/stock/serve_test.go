package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// An instance that finds no server at all starts, says so, and works when the servers come.
func TestStartWithoutBackends(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := startServers(t, t.Context(), demoServers()) // of its own: it stops them
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	skipIfMissing(t, s)
	c := serve(t, s, 1)
	app := c.apps[0]
	for _, name := range []string{"redis", "mysql", "zookeeper"} {
		if err := c.Server(name).Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- app.Restart(t.Context()) }()
	servertest.Eventually(t, 20*time.Second, "the instance says what is missing", func() (bool, string) {
		status, body := get(t, app.URL+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "redis is down") &&
			strings.Contains(body, "mysql is down") && strings.Contains(body, "zookeeper is down"), body
	})
	for _, name := range []string{"redis", "mysql", "zookeeper"} {
		if err := c.Server(name).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Eventually(t, time.Minute, "every strategy is available", func() (bool, string) {
		status, body := get(t, app.URL+"/v1/strategies")
		return status == http.StatusOK && !strings.Contains(body, `"available":false`) &&
			!strings.Contains(body, "is down"), body
	})
	if err := <-started; err != nil {
		t.Error(err)
	}
}
