package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"example.com/stock/service/strategy"
)

// aclOfTheDocs returns the ACL of the user "stock", which docs/security.md and its translation have in one line.
func aclOfTheDocs(t *testing.T) []any {
	t.Helper()
	var found []string
	for _, path := range []string{"../docs/security.md", "../docs/security.zh-CN.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "ACL SETUSER stock ") {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	if len(found) != 2 || found[0] != found[1] {
		t.Fatalf("want one line in each document, and the same in both: %q", found)
	}
	var command []any
	for _, word := range strings.Fields(found[0]) {
		command = append(command, word)
	}
	return command
}

// A Redis user with no more rights than docs/security.md says can do all that the service does, and nothing else.
// One of the three masters of redlock is missing: two are a majority.
func documentedUser(t *testing.T, lone *breakable) {
	acl := aclOfTheDocs(t)
	password := fmt.Sprint(acl[5])[1:] // ACL SETUSER stock reset on >password
	addrs := []string{lone.redis.Addr, servers.Redis(t).Addr}
	var urls []string
	var nodes []*redis.Client
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		if err := client.Do(t.Context(), acl...).Err(); err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, client)
		urls = append(urls, "redis://stock:"+password+"@"+addr)
	}
	logDenied := func() {
		for n, node := range nodes {
			log, err := node.Do(context.Background(), "ACL", "LOG").Result()
			if denied := fmt.Sprint(log); err != nil || strings.Contains(denied, "user=stock ") {
				t.Errorf("node %d has denied: %s %v", n, denied, err)
			}
		}
	}
	defer func() { logDenied() }()
	i := begin(t, backends(
		"--redis-url="+urls[0], "--redlock-urls="+strings.Join(urls, ",")+",redis://127.0.0.1:1",
		"--redlock-node-timeout=5s",
		"--redlock-quarantine=-1s",
		"--store=redis", "--lock-setnx-repair", "--seed-quantity=100000")...)
	i.ready(t, "redis", "redlock")
	for _, s := range strategy.All() {
		needs := slices.DeleteFunc(slices.Clone(s.Needs), func(n string) bool { return strings.HasPrefix(n, "red") })
		if len(needs) > 0 || len(s.Stores) > 0 && !slices.Contains(s.Stores, "redis") {
			continue
		}
		i.must(t, http.MethodPut, "/v1/stock/"+s.Name+"?quantity=1000", 200)
		var sales []<-chan reply // of several at once: some wait
		for range 8 {
			sales = append(sales, i.later(http.MethodPost, s.Endpoint+"?sku="+s.Name))
		}
		for _, sale := range sales {
			if r := <-sale; r.status != 200 && (s.Promise.Blocking || r.status != 409 && r.status != 503) {
				t.Errorf("%s: %d %s", s.Name, r.status, r.body)
			}
		}
		if s.Lock != nil {
			i.ask(http.MethodGet, "/v1/locks/"+s.Name+"/"+s.Name)
			i.send(http.MethodDelete, i.admin+"/v1/locks/"+s.Name+"/"+s.Name)
		}
	}
	i.must(t, http.MethodPut, "/v1/stock/stock?quantity=1000", 200)
	i.end(t)

	logDenied()
	logDenied = func() {} // what follows is denied
	hasNoMoreRights(t, redis.NewClient(&redis.Options{Addr: addrs[0], Username: "stock", Password: password}))
}

func hasNoMoreRights(t *testing.T, user *redis.Client) {
	defer user.Close()
	for _, command := range [][]any{
		{"FLUSHALL"},
		{"KEYS", "*"},
		{"GET", "other:app"},
		{"PUBLISH", "other", "x"},
		{"EVAL", "return redis.call('GET', 'other:app')", "0"},
	} {
		err := user.Do(t.Context(), command...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%v: %v, want that it is not permitted", command, err)
		}
	}
}
