package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
)

// token is the admin token of the instances.
const token = "panels"

// installation returns instances of both profiles on all servers, with a relay, under load until the test ends.
func installation(t *testing.T) (program string, instances []*stack.Server) {
	t.Helper()
	program = filepath.Join(t.TempDir(), "stock")
	build := exec.Command("go", "build", "-o", program, "./cmd/stock")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	want := append(slices.Repeat([]stack.Kind{stack.Redis}, 5), stack.MySQL, stack.ZooKeeper) // five are for Redlock
	s := stacktest.Start(t, stack.Options{
		Want: want, Binary: program, AnyPort: true, Env: []string{"STOCK_ADMIN_TOKEN=" + token},
	})
	if missing := s.Missing(); len(missing) > 0 {
		if os.Getenv("REQUIRE_BACKENDS") == "1" {
			t.Fatalf("REQUIRE_BACKENDS=1, but %v", missing)
		}
		t.Skip(missing)
	}
	demo, err := s.Serve(t.Context(), 2, "STOCK_RELAY_ENABLED=true")
	if err != nil {
		t.Fatal(err)
	}
	orders, err := s.Serve(t.Context(), 1, "STOCK_PROFILE=orders", "STOCK_AUTH=trust-proxy", "STOCK_RELAY_ENABLED=true")
	if err != nil {
		t.Fatal(err)
	}
	load(t, demo, orders[0])
	return program, append(demo, orders...)
}

// load sells until the test ends: under locks that several want, from stock that is gone, SKUs that do not exist,
// orders and reservations.
func load(t *testing.T, demo []*stack.Server, orders *stack.Server) {
	t.Helper()
	const customers = 50
	const pen = `{"customer":"c%d","lines":[{"sku":"pen","quantity":1}]}`
	const kept = `{"customer":"c%d","lines":[{"sku":"pen","quantity":1}],"ttl":"1m"}`
	for _, sku := range []string{"a", "b", "c", "d"} {
		put(t, demo[0].URL+"/v1/stock/"+sku, 1_000_000)
	}
	put(t, demo[0].URL+"/v1/stock/gone", 1)
	put(t, orders.URL+"/v1/stock/pen", 1_000_000)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		stop()
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	for n := range 24 {
		all.Go(func() {
			base := demo[n/8%len(demo)].URL
			for i := 0; ctx.Err() == nil; i++ {
				switch n % 8 {
				case 0: // does not wait: most are refused with lock_busy
					post(ctx, base+"/deduct_stock_lock?sku=a", "")
				case 1:
					post(ctx, base+"/deduct_stock_redisson?sku=b", "")
				case 2:
					post(ctx, base+"/deduct_stock_zk?sku=c", "")
				case 3:
					post(ctx, base+"/deduct_stock_mysql_table?sku=d", "")
				case 4:
					post(ctx, base+"/deduct_stock_atomic?sku=gone", "")
				case 5:
					post(ctx, orders.URL+"/v1/orders", fmt.Sprintf(pen, i%customers))
				case 6:
					post(ctx, orders.URL+"/v1/reservations", fmt.Sprintf(kept, i%customers))
				case 7:
					unknown := strings.Replace(fmt.Sprintf(pen, i%customers), "pen", "unknown", 1)
					post(ctx, orders.URL+"/v1/orders", unknown)
				}
				pause(ctx, 20*time.Millisecond) // the computer is not to be saturated
			}
		})
	}
}

// post sends a request, whatever becomes of it: refusals are part of the load.
func post(ctx context.Context, url, body string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		panic(err) // a constant
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if reply, err := http.DefaultClient.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
	}
}

func put(t *testing.T, url string, quantity int) {
	t.Helper()
	body := strings.NewReader(fmt.Sprintf(`{"quantity":%d}`, quantity))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Body.Close()
	if text, _ := io.ReadAll(reply.Body); reply.StatusCode != http.StatusOK {
		t.Fatalf("PUT %s: %s %s", url, reply.Status, text)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
