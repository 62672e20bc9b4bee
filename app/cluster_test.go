package app

import (
	"encoding/json"
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
	c := servertest.RedisCluster(t)
	for _, full := range []string{"yes", "no"} {
		t.Run("full coverage "+full, func(t *testing.T) {
			for _, node := range c.Nodes {
				tell(t, node.Addr, "CONFIG SET cluster-require-full-coverage "+full)
				tell(t, node.Addr, "CONFIG SET cluster-node-timeout 1000")
			}
			url := "redis://" + c.Addrs()[0] + "?addr=" + strings.Join(c.Addrs(), "&addr=")
			i := begin(t, backends("--redis-url="+url, "--redis-timeout=5s")...)
			i.ready(t, "redis")
			loseSlots(t, i, c, full == "yes")
		})
	}
}

// loseSlots kills a master. It starts again, empty, and all is sold again when a person has set the stock.
func loseSlots(t *testing.T, i *instance, c *server.RedisCluster, full bool) {
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
	for _, sku := range skus {
		i.must(t, http.MethodPut, "/v1/stock/"+sku+"?quantity=1000", 200)
		i.must(t, http.MethodPost, "/deduct_stock_atomic?sku="+sku, 200)
	}
	if err := lost.Kill(); err != nil {
		t.Fatal(err)
	}
	up := i.neverDown(t, "redis")
	i.redisIs(t, "without the lost part", func(told standing) bool {
		if full {
			return !told.Up && strings.Contains(told.Reason, "its cluster is down")
		}
		return told.Up && strings.Contains(told.Warning, "of the slots give no answer")
	})
	if !full {
		for range 20 {
			if r := i.buy(skus[false]); r.status != 200 {
				t.Errorf("a SKU of another master: %d %s, want 200", r.status, r.body)
			}
		}
		up()
	}
	for ofLost, sku := range skus {
		if r := i.buy(sku); (full || ofLost) && name(r) != "backend_down" {
			t.Errorf("%s, of the lost master: %t: %d %s, want backend_down", sku, ofLost, r.status, r.body)
		}
	}
	if err := lost.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Nothing is sold until a person has set the stock, which ends that for all SKUs.
	servertest.Eventually(t, time.Minute, "the stock can be set", func() (bool, string) {
		r := i.ask(http.MethodPut, "/v1/stock/"+skus[true]+"?quantity=1000")
		return r.status == 200, r.body
	})
	i.redisIs(t, "whole again", func(told standing) bool { return told.Up && told.Warning == "" })
	// A node may still think that the cluster is down, for a moment after the probe has heard otherwise.
	for _, sku := range skus {
		servertest.Eventually(t, time.Minute, "both are sold at the end", func() (bool, string) {
			r := i.buy(sku)
			return r.status == 200, r.body
		})
	}
}

// A standing is what /readyz says of a backend.
type standing struct {
	Up              bool
	Reason, Warning string
}

// redisIs waits until Redis is as wanted.
func (i *instance) redisIs(t *testing.T, what string, so func(standing) bool) {
	t.Helper()
	servertest.Eventually(t, time.Minute, "/readyz says that Redis is "+what, func() (bool, string) {
		r := i.ask(http.MethodGet, "/readyz")
		var told struct{ Backends map[string]standing }
		_ = json.Unmarshal([]byte(r.body), &told)
		return so(told.Backends["redis"]), r.body
	})
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
