package handler_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"example.com/stock/service"
)

// What is asked for makes the fingerprint, whatever its form; the key is of one endpoint; a bad one is refused.
func TestDeductionsHaveKeys(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil }}
	url := serve(t, d, nil).URL
	keyOf := func(path, body string, header ...string) service.Key {
		t.Helper()
		if r := send(t, http.MethodPost, url+path, body, header...); r.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d %s", path, body, r.StatusCode, r.body)
		}
		return d.asked[len(d.asked)-1].Key
	}
	none := keyOf("/deduct_stock_zk", "")
	if none != (service.Key{}) {
		t.Errorf("without a header: %+v", none)
	}
	one := keyOf("/deduct_stock_zk", `{"quantity":2}`, "Idempotency-Key", "k1")
	if len(one.ID) != service.KeyLength || len(one.Fingerprint) != service.KeyLength {
		t.Errorf("%+v, want digests of %d characters", one, service.KeyLength)
	}
	for name, c := range map[string]struct {
		path, body, key   string
		sameID, samePrint bool
	}{
		"in quotes":       {"/deduct_stock_zk", `{"quantity":2}`, `"k1"`, true, true},
		"in the query":    {"/deduct_stock_zk?quantity=2", "", "k1", true, true},
		"another wait":    {"/deduct_stock_zk", `{"quantity":2,"wait":"1s"}`, "k1", true, true},
		"another number":  {"/deduct_stock_zk", `{"quantity":3}`, "k1", true, false},
		"another SKU":     {"/deduct_stock_zk", `{"quantity":2,"sku":"another"}`, "k1", true, false},
		"another key":     {"/deduct_stock_zk", `{"quantity":2}`, "k2", false, true},
		"by the resource": {"/v1/stock/stock/deduct", `{"strategy":"zk-sequential","quantity":2}`, "k1", false, true},
	} {
		got := keyOf(c.path, c.body, "Idempotency-Key", c.key)
		if (got.ID == one.ID) != c.sameID || (got.Fingerprint == one.Fingerprint) != c.samePrint {
			t.Errorf("%s: %+v\nfirst %+v", name, got, one)
		}
	}
	for _, bad := range []string{"", "a b", "ключ", `"open`, strings.Repeat("k", 256)} {
		asked := len(d.asked)
		wantProblem(t, send(t, http.MethodPost, url+"/deduct_stock_zk", "", "Idempotency-Key", bad), 400, "invalid")
		if len(d.asked) != asked {
			t.Errorf("key %q: it is sold", bad)
		}
	}
}

// A reply that was kept says so, and what is wrong with a key is a problem with a type of its own.
func TestRepliesToKeys(t *testing.T) {
	var answer service.Receipt
	var failed error
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return answer, failed }}
	url := serve(t, d, nil).URL
	answer = receipt()
	for _, replayed := range []bool{false, true} {
		answer.Replayed = replayed
		r := send(t, http.MethodPost, url+"/deduct_stock_zk", "", "Idempotency-Key", "k1")
		if got := r.Header.Get("Idempotent-Replayed"); r.StatusCode != http.StatusOK || (got == "true") != replayed {
			t.Errorf("replayed %t: %d, header %q", replayed, r.StatusCode, got)
		}
	}
	for err, want := range map[error]struct {
		status int
		name   string
	}{
		service.ErrKeyReused:   {422, "idempotency_key_reused"},
		service.ErrKeyInFlight: {409, "idempotency_in_flight"},
	} {
		failed = err
		r := send(t, http.MethodPost, url+"/deduct_stock_zk", "", "Idempotency-Key", "k1")
		wantProblem(t, r, want.status, want.name)
	}
}

func send(t *testing.T, method, url, body string, header ...string) reply {
	t.Helper()
	return ask(t, method, url, body, append([]string{"Content-Type", asJSON}, header...)...)
}
