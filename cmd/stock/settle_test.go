package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// post asks a URL without a body, and decodes the reply.
func post(t *testing.T, url string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", url, err, body)
	}
	return resp.StatusCode
}

// Sales whose Redis stops in the middle are unknown. Who follows the reply, through the proxy, is told of each whether
// it was made, the same every time, and that is what the list of orders shows at the end.
func TestOutcomeUnknownIsSettled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	sale := c.front.URL + "/deduct_stock_atomic?store=redis"
	var first struct{ Quantity int }
	if status := post(t, sale, &first); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if err := c.Server("redis").Pause(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	paths := make(map[string]string) // by order id
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			var problem struct {
				Type    string
				Settle  string
				OrderID string `json:"order_id"`
			}
			post(t, sale, &problem)
			mu.Lock()
			defer mu.Unlock()
			if problem.Type == "/problems/outcome_unknown" {
				paths[problem.OrderID] = problem.Settle
			}
		})
	}
	all.Wait()
	if err := c.Server("redis").Resume(); err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("no outcome is unknown: this proves nothing")
	}
	written := 0
	for id, path := range paths {
		var said [2]struct {
			OrderID string `json:"order_id"`
			State   string
			Final   bool
		}
		for i := range said {
			eventually(t, 10*time.Second+slack, "it is decided", func() (bool, string) {
				status := post(t, c.front.URL+path, &said[i])
				return status == http.StatusOK, http.StatusText(status)
			})
		}
		if said[0] != said[1] || said[0].OrderID != id || !said[0].Final {
			t.Errorf("order %s: %+v, and then %+v", id, said[0], said[1])
		}
		_, orders := get(t, c.front.URL+"/v1/stock/stock/orders?store=redis&limit=1000")
		if there := strings.Contains(orders, id); there != (said[0].State == "written") {
			t.Errorf("order %s is %s, and in the list: %v", id, said[0].State, there)
		} else if there {
			written++
		}
	}
	t.Logf("%d unknown, %d of them written", len(paths), written)
}
