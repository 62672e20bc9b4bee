package app

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/service/strategy"
)

// strangers is the number of requests for unknown SKUs that each strategy gets, without -short.
const strangers = 300

// Requests for SKUs that do not exist leave nothing on any server: no key, no row, no znode, whatever the strategy and
// the store.
func TestUnknownSKUsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	zookeeper, dsn := servers.ZooKeeper(t), migrated(t)
	addr := servers.Redis(t).Addr
	i := begin(t, backends("--redis-url=redis://"+addr, "--zookeeper-hosts="+zookeeper, "--mysql-dsn="+dsn,
		"--seed-sku="+own(t))...)
	i.ready(t, "redis", "zookeeper", "mysql")
	i.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer i.client.CloseIdleConnections()

	var catalogue struct {
		Strategies []struct {
			Name, Endpoint string
			Stores         []string
			Available      bool
		}
	}
	if err := json.Unmarshal([]byte(i.must(t, http.MethodGet, "/v1/strategies", 200).body), &catalogue); err != nil {
		t.Fatal(err)
	}
	for _, s := range catalogue.Strategies {
		if s.Name == strategy.Redlock {
			continue // it has servers of its own; its lock is tested there
		}
		for _, store := range s.Stores {
			t.Run(s.Name+"/"+store, func(t *testing.T) {
				// The first sale creates what the strategy itself needs. What remains after that does not concern this
				// test.
				i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?store="+store+"&quantity=100", 200)
				i.must(t, http.MethodPost, s.Endpoint+"?store="+store+"&sku="+own(t), 200)
				rows, znodes := rowsOf(t, dsn), znodesOf(t, zookeeper)
				prefix := "no-such-" + s.Name + "-in-" + store + "-"
				var all sync.WaitGroup
				next := make(chan int, strangers)
				for n := range servertest.Rounds(strangers, 60) / len(s.Stores) {
					next <- n
				}
				close(next)
				for range 8 {
					all.Go(func() {
						for n := range next {
							r := i.ask(
								http.MethodPost,
								fmt.Sprintf("%s?store=%s&sku=%s%d", s.Endpoint, store, prefix, n),
							)
							if r.err != nil || r.field("type") != "/problems/unknown_sku" {
								t.Errorf("%s%d: %d %s %v", prefix, n, r.status, r.body, r.err)
								return
							}
						}
					})
				}
				all.Wait()
				// Asking for the holder of such a lock leaves nothing either.
				for n := range 20 {
					i.send(http.MethodGet, fmt.Sprintf("%s/v1/locks/%s/%sasked-%d", i.admin, s.Name, prefix, n))
				}
				if keys := keysOf(t, addr, prefix); len(keys) > 0 {
					t.Errorf("Redis has %d keys, such as %s", len(keys), keys[0])
				}
				if now := rowsOf(t, dsn); !maps.Equal(now, rows) {
					t.Errorf("MySQL has the rows %v, had %v", now, rows)
				}
				if now := znodesOf(t, zookeeper); now > znodes {
					t.Errorf("ZooKeeper has %d znodes, had %d", now, znodes)
				}
			})
		}
	}
}

// keysOf returns the keys of a Redis that contain part.
func keysOf(t *testing.T, addr, part string) (keys []string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	all := client.Scan(context.Background(), 0, "*"+part+"*", 1000).Iterator()
	for all.Next(context.Background()) {
		keys = append(keys, all.Val())
	}
	if err := all.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// rowsOf returns the number of rows of each table.
func rowsOf(t *testing.T, dsn string) map[string]int {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tables, err := db.Query("SHOW TABLES")
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]int)
	for tables.Next() {
		var name string
		if err := tables.Scan(&name); err != nil {
			t.Fatal(err)
		}
		counts[name] = 0
	}
	if err := tables.Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		var n int
		if err := db.QueryRow("SELECT COUNT(*) FROM `" + name + "`").Scan(&n); err != nil {
			t.Fatal(err)
		}
		counts[name] = n
	}
	return counts
}

// znodesOf returns the number of znodes of a ZooKeeper, as it reports itself.
func znodesOf(t *testing.T, addr string) (n int) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(cutOff))
	fmt.Fprint(c, "srvr")
	text, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`Node count: (\d+)`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("srvr says %s", text)
	}
	_, err = fmt.Sscan(string(found[1]), &n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
