package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"example.com/stock/stack"
)

// Who has a lock of redlock is told by the command, with and without an instance, and over HTTP. It cannot be taken away, because it has no
// fence. When there is no majority clients are told so, and no address.
func TestRedlockIsSeen(t *testing.T) {
	t.Parallel()
	redis := make([]stack.Kind, 6) // one for the stock, and five masters
	for i := range redis {
		redis[i] = stack.Redis
	}
	s, err := stack.Start(t.Context(), stack.Options{Want: redis, Binary: programPath(t), Env: []string{
		"STOCK_ADMIN_TOKEN=" + demoToken, "STOCK_REDLOCK_QUARANTINE=-1s", "STOCK_REDLOCK_NODE_TIMEOUT=5s",
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if len(s.Missing()) > 0 {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatal(s.Missing())
		}
		t.Skip(s.Missing())
	}
	apps, err := s.Serve(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	url, admin := apps[0].URL, apps[0].Admin
	var masters []string
	for i := 2; i <= len(redis); i++ {
		masters = append(masters, s.Server(fmt.Sprint("redis-", i)).Addr)
	}
	k := kindOfLock{"redlock", []string{"--redlock-addrs", strings.Join(masters, ","), "--redlock-quarantine=-1s", "--redlock-node-timeout=5s"}}
	holder := startLocking(t, "machine-1", k.args("seen", "--", "cat")...)
	fmt.Fprintln(holder.stdin, "up")
	holder.says(t, "up")

	listed(t, k, "seen", "machine-1")
	for _, args := range [][]string{append([]string{"ls", "redlock"}, k.server...), {"ls", "redlock", "seen", "--url", admin}} {
		if out, errs, err := run(t.Context(), append([]string{"lock"}, args...)...); err != nil || !strings.Contains(out, "seen") || !strings.Contains(out, "machine-1/pid-") {
			t.Errorf("%q: %v\n%s%s", args, err, out, errs)
		}
	}
	if status, body := get(t, admin+"/v1/locks/redlock/seen"); status != http.StatusOK || !strings.Contains(body, `"instance":"machine-1"`) || !strings.Contains(body, `"remaining_ms":`) {
		t.Errorf("GET: %d %s", status, body)
	}
	if _, _, err := run(t.Context(), "lock", "evict", "redlock", "seen", "--url", admin, "--admin-token", demoToken); err == nil || !strings.Contains(err.Error(), "no fence") {
		t.Errorf("evict: %v, want that there is no fence", err)
	}
	holder.stdin.Close()
	holder.ends(t, 0)
	if out, _, err := run(t.Context(), append([]string{"lock", "ls", "redlock"}, k.server...)...); err != nil || out != "" {
		t.Errorf("after the release: %v\n%s", err, out)
	}

	for i := 2; i <= 4; i++ {
		if err := s.Server(fmt.Sprint("redis-", i)).Kill(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, 20*time.Second, "the instance says that there is no majority", func() (bool, string) {
		status, body := get(t, admin+"/v1/locks/redlock/seen")
		if strings.Contains(body, "127.0.0.1") {
			t.Errorf("an address is shown: %s", body)
		}
		return status == http.StatusServiceUnavailable && strings.Contains(body, "2 of 5 nodes count") && strings.Contains(body, "node 3 is not reached"), body
	})
	if reply := deduct(t, url, "stock", "r", map[string]any{"strategy": "redlock"}); !strings.Contains(reply, "/problems/backend_down") || strings.Contains(reply, "127.0.0.1") {
		t.Errorf("a sale: %s, want backend_down and no address", reply)
	}
	eventually(t, 20*time.Second, "readyz says so", func() (bool, string) {
		_, body := get(t, url+"/readyz")
		if strings.Contains(body, "127.0.0.1") {
			t.Errorf("an address is shown: %s", body)
		}
		return strings.Contains(body, "node 1 is not reached"), body
	})
	log, err := os.ReadFile(apps[0].Log)
	if err != nil || !strings.Contains(string(log), masters[0]+" is not reached") {
		t.Errorf("%v; the log does not name the masters that are gone:\n%s", err, log)
	}
}
