package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/locktest/servertest"
)

// A request that holds a lock is evicted by "stock lock evict" while it thinks, through an instance that is not its
// own. Its write is refused, although nobody else has written and it ignores its loss. The next one sells, and no unit
// is lost. The clauses of service/selltest show it for every lock and store.
func TestEvictedRequestCannotWrite(t *testing.T) {
	t.Parallel()
	// No lease may end by itself before it is evicted.
	c := cluster.serve(t, 2, "STOCK_LAB=true", "STOCK_LOCK_WATCHDOG_LEASE=5m")
	for strategy, store := range map[string]string{"redis-watchdog": "mysql", "segmented": "redis"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			evictedRequest(t, c, strategy, store, "evict-"+strategy)
		})
	}
}

func evictedRequest(t *testing.T, c *group, strategy, store, sku string) {
	client := c.client(t, 4)
	if _, err := client.SetStock(t.Context(), store, sku, 10); err != nil {
		t.Fatal(err)
	}
	first, id, name := make(chan string, 1), "first-"+sku, c.apps[0].Name
	go func() {
		first <- deduct(t, c.apps[0].URL, sku, id, map[string]any{
			"strategy": strategy, "store": store,
			"pause": "before_write", "heed_loss": "off",
		})
	}()
	holder := func(app int, want string) func() (bool, string) {
		return func() (bool, string) {
			out, errs, err := run(t.Context(), "lock", "ls", strategy, sku, "--url", c.apps[app].Admin)
			return err == nil && strings.Contains(out, want), out + errs
		}
	}
	// Either instance can tell, because the server of the lock knows.
	servertest.Eventually(t, 30*time.Second, "the first holds", holder(1, name+"/"+id))
	paused(t, c.apps[0].Admin, id)
	key := sku
	if strategy == "segmented" {
		// It sells from a segment of its choice.
		out, _, _ := run(t.Context(), "lock", "ls", strategy, sku, "--url", c.apps[1].Admin)
		key = regexp.MustCompile(sku + `#\d+`).FindString(out)
	}

	out, _, err := run(
		t.Context(), "lock", "evict", strategy, key, "--url", c.apps[1].Admin, "--admin-token", demoToken,
	)
	if err != nil || !strings.Contains(out, "evicted "+name+"/"+id) ||
		!strings.Contains(out, "store "+store+": raised") {
		t.Fatalf("evict: %v\n%s", err, out)
	}
	letGo(t, c.apps[0].Admin, id)
	if reply := <-first; !strings.Contains(reply, "/problems/stale_fence") {
		t.Errorf("the evicted one was answered %s", reply)
	}
	if reply := deduct(
		t, c.apps[1].URL, sku, "the-next", map[string]any{"strategy": strategy, "store": store, "wait": "25s"},
	); !strings.Contains(reply, `"order_id"`) ||
		strings.Contains(reply, "/problems/") {
		t.Errorf("the next one was answered %s", reply)
	}
	stock, err := client.Stock(t.Context(), store, sku)
	if err != nil || stock.Quantity != 9 || stock.Sold != 1 {
		t.Errorf("%+v, %v; want 9 left and 1 sold", stock, err)
	}
}

// deduct sends a request with parameters of the lab. It returns the reply, or the error. It asks again, for a minute,
// while the instance says that a server is down: on a busy computer a probe may be late twice, and nothing was done.
func deduct(t *testing.T, base, sku, id string, body map[string]any) (reply string) {
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(50 * time.Millisecond) {
		if reply = deductOnce(t, base, sku, id, body); !strings.Contains(reply, "/problems/backend_down") {
			break
		}
	}
	return reply
}

func deductOnce(t *testing.T, base, sku, id string, body map[string]any) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	text, _ := json.Marshal(body)
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, base+"/v1/stock/"+sku+"/deduct", strings.NewReader(string(text)),
	)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+demoToken)
	req.Header.Set("X-Request-Id", id)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var reply json.RawMessage
	_ = json.NewDecoder(resp.Body).Decode(&reply)
	return string(reply)
}

// paused waits until the request with that id waits at its point of the lab.
func paused(t *testing.T, base, id string) {
	t.Helper()
	servertest.Eventually(t, 30*time.Second, id+" is paused", func() (bool, string) {
		status, body := asAdmin(t, http.MethodGet, base+"/v1/lab/pauses")
		return status == http.StatusOK && strings.Contains(body, `"`+id+`"`), body
	})
}

func letGo(t *testing.T, base, id string) {
	t.Helper()
	if status, body := asAdmin(t, http.MethodDelete, base+"/v1/lab/pauses/"+id); status != http.StatusOK {
		t.Errorf("let %s go: %d %s", id, status, body)
	}
}

// asAdmin sends a request to an instance as its admin.
func asAdmin(t *testing.T, method, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+demoToken)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
