package app

import (
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/stock/handler/access"
	"example.com/stock/handler/access/issuer"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/words"
)

func newIssuer(t *testing.T) *issuer.Issuer {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return issuer.New(private)
}

// A service for customers does not start before somebody has said who proves them, and says both ways out.
func TestWhoProvesACustomerMustBeSaid(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(keys, newIssuer(t).JWKS(), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens := strings.Fields("--auth=tokens --tokens-issuer=demo --tokens-audience=shop --tokens-keys-file=" + keys)
	redis := "--redis-addrs=127.0.0.1:1"
	for _, row := range []struct {
		args []string
		says []string // nothing: it starts
	}{
		{[]string{"--profile=demo"}, nil},
		{[]string{"--profile=demo", "--auth=trust-proxy"}, nil},
		{[]string{"--profile=orders", "--auth=trust-proxy"}, nil},
		{append([]string{"--profile=orders"}, tokens...), nil},
		{append([]string{"--profile=demo"}, tokens...), nil},
		{[]string{"--profile=orders"}, []string{
			"STOCK_AUTH=tokens", "STOCK_TOKENS_ISSUER", "STOCK_TOKENS_AUDIENCE", "STOCK_AUTH=trust-proxy",
		}},
		{[]string{"--profile=orders", "--auth=off"}, []string{"STOCK_AUTH=trust-proxy"}},
		{append([]string{"--profile=orders"}, append(tokens[:3:3], "--tokens-keys-file="+keys+"x")...), []string{
			"tokens.keys_file", "no such file",
		}},
		{[]string{"--profile=demo", "--admin-tls-cert=" + keys + "x", "--admin-tls-key=" + keys}, []string{
			"admin.tls.cert", "no such file",
		}},
	} {
		cfg := mustConfigure(t, backends(append(row.args, redis, "--addr=127.0.0.1:0", "--admin-addr=")...)...)
		a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
		if err == nil {
			if err := errorsOf(a.closeListeners(), a.close()); err != "" {
				t.Error(err)
			}
		}
		if (err == nil) != (row.says == nil) {
			t.Errorf("%v: %v", row.args, err)
			continue
		}
		for _, text := range row.says {
			said := words.Of(err)
			if !strings.Contains(said.EN, text) || !strings.Contains(said.ZH, text) || said.EN == said.ZH {
				t.Errorf("%v: %+v, want %s", row.args, said, text)
			}
		}
	}
	for _, row := range []struct{ args, says string }{
		{"--auth=maybe", "auth: "},
		{"--auth=tokens", "tokens.issuer: "},
		{"--auth=tokens --tokens-issuer=https://id.example.com", "tokens.audience: "},
		{"--auth=tokens --tokens-issuer=http://id.example.com --tokens-audience=shop", "tokens.issuer: "},
		{"--auth=tokens --tokens-issuer=https://x --tokens-audience=a --tokens-customer-claim=", "customer_claim: "},
		{"--tokens-leeway=6m", "tokens.leeway: "},
		{"--tokens-leeway=-1s", "tokens.leeway: "},
	} {
		_, err := configure(t, strings.Fields(row.args)...)
		if err == nil {
			t.Errorf("%s: accepted", row.args)
			continue
		}
		says(t, err, row.says)
	}
}

func errorsOf(list ...error) (text string) {
	for _, err := range list {
		if err != nil {
			text += err.Error()
		}
	}
	return text
}

// A shop whose customers have tokens of an issuer that is found by discovery: two customers do not see each other, a
// new key is found, and an issuer that is down stops nobody whose key is known. Nothing of a token is logged or shown.
func TestCustomersWithTokens(t *testing.T) {
	first, second := newIssuer(t), newIssuer(t)
	var keys atomic.Pointer[issuer.Issuer]
	var down atomic.Bool
	keys.Store(first)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case down.Load():
			http.Error(w, "down", http.StatusBadGateway)
		case r.URL.Path == "/keys":
			_, _ = w.Write(keys.Load().JWKS())
		default:
			fmt.Fprintf(w, `{"issuer":"%s","jwks_uri":"%s/keys"}`, server.URL, server.URL)
		}
	}))
	defer server.Close()
	i := begin(t, backends("--profile=orders", "--redis-addrs="+servers.Redis(t).Addr, "--auth=tokens",
		"--tokens-issuer="+server.URL, "--tokens-audience=shop")...)
	i.ready(t, "redis")

	name := uuid.NewString()[:8]
	sku, ann, bob := "tokens-"+name, "ann-"+name, "bob-"+name // Redis is shared
	tokenOf := func(of *issuer.Issuer, customer string, scopes ...access.Scope) string {
		text, err := of.Token(issuer.Claim{
			Issuer: server.URL, Audience: "shop", Subject: customer, Scopes: scopes, TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ask := func(who, method, path, body string) reply {
		req, err := http.NewRequest(method, i.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+who)
		resp, err := i.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return reply{resp.StatusCode, string(text), err}
	}
	want := func(r reply, status int) reply {
		t.Helper()
		if r.status != status {
			t.Errorf("%d %s, want %d", r.status, r.body, status)
		}
		return r
	}
	clerk := tokenOf(first, "clerk", access.StockWrite, access.StockRead)
	want(ask(clerk, http.MethodPut, "/v1/stock/"+sku, `{"quantity":10}`), 200)
	anns, bobs := tokenOf(first, ann, access.OrdersOwn), tokenOf(first, bob, access.OrdersOwn)
	want(ask(anns, http.MethodGet, "/v1/stock/"+sku, ""), 403)
	want(ask(clerk, http.MethodGet, "/v1/orders", ""), 403)
	cart := `{"lines":[{"sku":"` + sku + `","quantity":1}]`
	placed := want(ask(anns, http.MethodPost, "/v1/orders", cart+"}"), 201)
	if placed.field("customer") != ann {
		t.Errorf("the order is not %s's: %s", ann, placed.body)
	}
	held := want(ask(anns, http.MethodPost, "/v1/reservations", cart+`,"ttl":"15m"}`), 201)
	order := fmt.Sprint("/v1/orders/", placed.field("order_id"))
	reservation := fmt.Sprint("/v1/reservations/", held.field("reservation_id"))
	for _, row := range []struct{ method, path, body string }{
		{http.MethodGet, order, ""},
		{http.MethodPost, order + "/cancel", ""},
		{http.MethodGet, reservation, ""},
		{http.MethodPost, reservation + "/cancel", ""},
		{http.MethodPost, reservation + "/confirm", ""},
		{http.MethodPost, reservation + "/extend", `{"ttl":"20m"}`},
	} {
		want(ask(bobs, row.method, row.path, row.body), 404)
		want(ask(bobs, row.method, row.path+"?customer="+ann, row.body), 403)
	}
	if r := want(ask(bobs, http.MethodGet, "/v1/orders", ""), 200); strings.Contains(r.body, ann) {
		t.Errorf("bob sees %s", r.body)
	}
	want(ask(anns, http.MethodPost, reservation+"/confirm", ""), 200)

	down.Store(true)
	want(ask(anns, http.MethodGet, order, ""), 200)
	down.Store(false)
	keys.Store(second)
	seconds := tokenOf(second, ann, access.OrdersOwn)
	stacktest.Eventually(t, time.Minute, "the new key is found", func() (bool, string) {
		r := ask(seconds, http.MethodGet, order, "")
		return r.status == 200, r.body
	})
	want(ask(anns, http.MethodGet, order, ""), 401)

	shown := i.log.String()
	for _, path := range []string{i.url + "/readyz", i.admin + "/metrics", i.url + "/openapi.json"} {
		shown += i.send(http.MethodGet, path).body
	}
	for _, secret := range []string{anns, bobs, clerk, seconds, strings.Split(anns, ".")[1]} {
		if strings.Contains(shown, secret) {
			t.Error("a token is in the log, the metrics, the document or /readyz")
		}
	}
}

// The rate of a customer is one for all instances, and nobody else's. It is kept in Redis, also if the orders are not.
func TestCustomersRateIsOfAllInstances(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "mysql"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			checkCustomersRate(t, store)
		})
	}
}

func checkCustomersRate(t *testing.T, store string) {
	made := newIssuer(t)
	keys := filepath.Join(t.TempDir(), "jwks.json")
	if err := os.WriteFile(keys, made.JWKS(), 0o600); err != nil {
		t.Fatal(err)
	}
	dsn := migrated(t)
	const burst = 5
	var instances []*instance
	for range 2 {
		i := begin(t, backends("--profile=orders", "--store="+store, "--redis-addrs="+servers.Redis(t).Addr,
			"--mysql-dsn="+dsn, "--auth=tokens",
			"--tokens-keys-file="+keys, "--tokens-issuer=shop", "--tokens-audience=shop",
			"--redis-timeout=30s", "--work=30s",
			"--limits-customer-rate=1", fmt.Sprint("--limits-customer-burst=", burst))...)
		i.ready(t, store)
		instances = append(instances, i)
	}
	list := func(customer string, i *instance) int {
		token, err := made.Token(issuer.Claim{
			Issuer: "shop", Audience: "shop", Subject: customer, Scopes: []access.Scope{access.OrdersOwn},
			TTL: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequest(http.MethodGet, i.url+"/v1/orders", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := i.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	// Each customer is new: Redis is shared. An instance that takes Redis for down decides by itself for a while, so on
	// a busy computer one of three customers must have one rate. Without a shared rate none has.
	for range 3 {
		customer, began, got := uuid.NewString()[:8], time.Now(), make(map[int]int)
		for n := range 4 * burst {
			got[list(customer, instances[n%2])]++
		}
		most := burst + 1 + int(time.Since(began)/time.Second) // one more for each second
		if got[200] < burst || got[200]+got[429] != 4*burst {
			t.Fatalf("of %d requests to two instances: %v, want at least %d with 200, and others with 429",
				4*burst, got, burst)
		}
		if got[200] <= most {
			if status := list(uuid.NewString()[:8], instances[0]); status != http.StatusOK {
				t.Errorf("another customer: %d", status)
			}
			return
		}
		t.Logf("of %d requests to two instances: %v, want at most %d with 200", 4*burst, got, most)
	}
	t.Error("each instance admits a rate of its own")
}
