package loadtest_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/loadtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, status int, name, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).
		Encode(map[string]any{"type": "/problems/" + name, "title": name, "status": status, "detail": detail})
}

func client(t *testing.T, url, token string, concurrency int) *loadtest.Client {
	t.Helper()
	c, err := loadtest.NewClient(url, token, concurrency)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
