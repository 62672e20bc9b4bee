package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/internal/stack/stacktest"
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
func TestTheDocumentedUserOfRedis(t *testing.T) {
	t.Parallel()
	acl := aclOfTheDocs(t)
	password := fmt.Sprint(acl[5])[1:] // ACL SETUSER stock reset on >password
	var addrs []string
	var nodes []*redis.Client
	for range 4 {
		addr := stacktest.Redis(t).Addr
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		if err := client.Do(t.Context(), acl...).Err(); err != nil {
			t.Fatal(err)
		}
		addrs, nodes = append(addrs, addr), append(nodes, client)
	}
	logDenied := func() {
		for n, node := range nodes {
			denied, err := node.Do(context.Background(), "ACL", "LOG").Slice()
			if err != nil || len(denied) > 0 {
				t.Errorf("node %d has denied: %v %v", n, denied, err)
			}
		}
	}
	defer func() { logDenied() }()
	made := newIssuer(t)
	common := []string{
		"--redis-addrs=" + addrs[0], "--redlock-addrs=" + strings.Join(addrs[1:], ","), "--redis-username=stock",
		"--redis-password=" + password, "--redlock-node-timeout=5s", "--redlock-quarantine=-1s",
		"--store=redis", "--stores-enabled=redis", "--relay-enabled", "--lock-setnx-repair", "--tokens-issuer=demo",
		"--tokens-audience=shop", "--tokens-keys-file=" + file(t, "keys.json", string(made.JWKS())),
	}
	i := begin(t, backends(append(common, "--seed-quantity=100000", "--auth=tokens")...)...)
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
	i.wants(t, 200, http.MethodPost, "/v1/stock/stock/adjustments", `{"delta":5,"reason":"found"}`)
	i.wants(t, 200, http.MethodGet, "/v1/stock/stock/movements", "")
	i.must(t, http.MethodPut, "/v1/stock/stock?quantity=1000", 200)

	// A customer with a token has a rate, in Redis.
	claim := issuer.Claim{
		Issuer: "demo", Audience: "shop", Subject: "ann", Scopes: []access.Scope{access.OrdersOwn}, TTL: time.Hour,
	}
	mine, err := made.Token(claim)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest(http.MethodGet, i.url+"/v1/orders", http.NoBody)
	req.Header.Set("Authorization", "Bearer "+mine)
	if resp, err := i.client.Do(req); err != nil {
		t.Error(err)
	} else {
		_ = resp.Body.Close()
	}
	i.end(t)

	// A shop: orders, reservations and their ends, under a lock.
	shop := begin(t, backends(append(common, "--profile=orders", "--orders-strategy=redis-watchdog")...)...)
	shop.ready(t, "redis")
	shop.wants(t, 200, http.MethodPut, "/v1/stock/pen", `{"quantity":10}`)
	cart := `{"customer":"ann","lines":[{"sku":"pen","quantity":1}]`
	order := shop.wants(t, 201, http.MethodPost, "/v1/orders", cart+"}")
	placed := fmt.Sprint("/v1/orders/", order.field("order_id"))
	shop.wants(t, 200, http.MethodPost, placed+"/cancel", `{"customer":"ann"}`)
	shop.wants(t, 200, http.MethodGet, "/v1/orders?customer=ann", "")
	held := shop.wants(t, 201, http.MethodPost, "/v1/reservations", cart+`,"ttl":"1s"}`)
	path := fmt.Sprint("/v1/reservations/", held.field("reservation_id"))
	shop.wants(t, 200, http.MethodPost, path+"/extend", `{"customer":"ann","ttl":"1s"}`)
	stacktest.Eventually(t, time.Minute, "the reservation expires", func() (bool, string) {
		r := shop.ask(http.MethodGet, path+"?customer=ann")
		return strings.Contains(r.body, "expired"), r.body
	})
	stacktest.Eventually(t, time.Minute, "the relay has delivered", func() (bool, string) {
		keys, err := nodes[0].Keys(t.Context(), "*events*").Result()
		return err == nil && len(keys) > 0, fmt.Sprint(keys, err)
	})

	logDenied()
	logDenied = func() {} // what follows is denied
	intruder := redis.NewClient(&redis.Options{Addr: addrs[0], Username: "stock", Password: password})
	defer intruder.Close()
	for _, command := range [][]any{
		{"FLUSHALL"},
		{"CONFIG", "GET", "*"},
		{"KEYS", "*"},
		{"GET", "other:app"},
		{"SET", "other:app", "1"},
		{"ACL", "LIST"},
		{"SHUTDOWN"},
		{"REPLICAOF", "NO", "ONE"},
		{"PUBLISH", "other", "x"},
		{"EVAL", "return redis.call('GET', 'other:app')", "0"},
		{"FUNCTION", "LIST"},
		{"MONITOR"},
	} {
		err := intruder.Do(t.Context(), command...).Err()
		if err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "can't access") {
			t.Errorf("%v: %v, want that it is not permitted", command, err)
		}
	}
}
