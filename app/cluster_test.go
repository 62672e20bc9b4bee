package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A cluster that has lost slots answers PING. With full coverage required (the default) it refuses all keys, and is
// down. Without, the SKUs of other masters are sold as usual, the cluster is up, and /readyz names the lost slots.
func TestRedisClusterWithSlotsLost(t *testing.T) {
	t.Parallel()
	c, err := servertest.Start(t, server.Options{}).StartRedisCluster(t.Context(), 3)
	servertest.Started(t, err)
	for _, full := range []string{"yes", "no"} {
		t.Run("full coverage "+full, func(t *testing.T) {
			for _, node := range c.Nodes {
				tell(t, node.Addr, "CONFIG SET cluster-require-full-coverage "+full)
				tell(t, node.Addr, "CONFIG SET cluster-node-timeout 1000")
			}
			url := "redis://" + c.Addrs()[0] + "?addr=" + strings.Join(c.Addrs(), "&addr=")
			i := begin(t, backends("--redis-url="+url, "--redis-timeout=5s")...)
			i.ready(t, "redis")
			lost := c.Nodes[1]
			skus := map[bool]string{} // of the node that is lost, and of another
			for n := 0; len(skus) < 2; n++ {
				sku := fmt.Sprint("sku-", n)
				owner, err := c.Owner(t.Context(), "stock:{"+sku+"}")
				if err != nil {
					t.Fatal(err)
				}
				skus[owner == lost] = sku
			}
			sell := func(ofLost bool) reply { return i.ask(http.MethodPost, "/deduct_stock_atomic?sku="+skus[ofLost]) }
			for _, sku := range skus {
				i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=1000", 200)
				i.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+sku, 200)
			}
			const loss = "of the slots give no answer"
			if err := lost.Kill(); err != nil {
				t.Fatal(err)
			}
			if full == "yes" {
				servertest.Eventually(t, time.Minute, "/readyz says that the cluster is down", func() (bool, string) {
					r := i.ask(http.MethodGet, "/readyz")
					told := backendOf(r, "redis")
					return !told.Up && strings.Contains(told.Reason, "its cluster is down"), r.body
				})
				for _, ofLost := range []bool{false, true} {
					if r := sell(ofLost); name(r) != "backend_down" {
						t.Errorf("%d %s, want backend_down", r.status, r.body)
					}
				}
			} else {
				up := i.neverDown(t, "redis")
				servertest.Eventually(t, time.Minute, "/readyz names the lost part", func() (bool, string) {
					r := i.ask(http.MethodGet, "/readyz")
					told := backendOf(r, "redis")
					return told.Up && strings.Contains(told.Warning, loss), r.body
				})
				for range 20 {
					if r := sell(false); r.status != 200 {
						t.Errorf("another master's SKU: %d %s, want 200", r.status, r.body)
					}
				}
				if r := sell(true); name(r) != "backend_down" {
					t.Errorf("the SKU of the lost master: %d %s, want backend_down", r.status, r.body)
				}
				up()
			}
			if err := lost.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			// The node came back empty. Nothing is sold until a person has set the stock, which ends that for all SKUs.
			servertest.Eventually(t, time.Minute, "the stock can be set", func() (bool, string) {
				r := i.ask(http.MethodPut, "/v1/stock/"+skus[true]+"?quantity=1000")
				return r.status == 200, r.body
			})
			servertest.Eventually(t, time.Minute, "all is served again", func() (bool, string) {
				r := i.ask(http.MethodGet, "/readyz")
				told := backendOf(r, "redis")
				return told.Up && told.Warning == "", r.body
			})
			// A node may still think that the cluster is down, for a moment after the probe has heard otherwise.
			for _, ofLost := range []bool{false, true} {
				servertest.Eventually(t, time.Minute, "both are sold at the end", func() (bool, string) {
					r := sell(ofLost)
					return r.status == 200, r.body
				})
			}
		})
	}
}

// tell sends a command to a Redis.
func tell(t *testing.T, addr, command string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	var words []any
	for _, word := range strings.Fields(command) {
		words = append(words, word)
	}
	if err := client.Do(t.Context(), words...).Err(); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
}
