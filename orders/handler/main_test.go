package handler_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"

	"example.com/stock/orders/handler"
	"example.com/stock/orders/internal/mariadb"
	"example.com/stock/orders/repo"
)

var (
	server *mariadb.Server
	store  *repo.Store
	routes *gin.Engine
	web    *httptest.Server
	dsn    string
	rows   *sql.DB // for what the API does not show
)

func TestMain(m *testing.M) {
	if os.Getenv("SKIP_SERVERS") == "1" {
		fmt.Println("SKIP_SERVERS: nothing is tested here without MariaDB")
		return
	}
	gin.SetMode(gin.ReleaseMode)
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, dsn, err = mariadb.Start(); err != nil {
		fmt.Println("start MariaDB (SKIP_SERVERS=1 does without):", err)
		return 1
	}
	defer server.Stop()
	if store, err = repo.Open(dsn, 40); err == nil {
		err = store.Migrate(context.Background())
	}
	if err == nil {
		routes, err = handler.New(store)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer store.Close()
	if rows, err = sql.Open("mysql", dsn); err != nil {
		fmt.Println(err)
		return 1
	}
	defer rows.Close()
	web = httptest.NewServer(routes)
	defer web.Close()
	return m.Run()
}

// A reply of the service.
type reply struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

// call sends a request of customer ann.
func call(t testing.TB, method, path, key string, body any) reply {
	t.Helper()
	r, err := send(method, path, key, "ann", body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

func send(method, path, key, customer string, body any) (reply, error) {
	return sendTo(web.URL, method, path, key, customer, body)
}

func sendTo(service, method, path, key, customer string, body any) (reply, error) {
	var text []byte
	switch b := body.(type) {
	case nil:
	case string:
		text = []byte(b)
	default:
		var err error
		if text, err = json.Marshal(b); err != nil {
			return reply{}, err
		}
	}
	q, err := http.NewRequestWithContext(context.Background(), method, service+path, bytes.NewReader(text))
	if err != nil {
		return reply{}, err
	}
	q.Header.Set("X-Customer", customer)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		q.Header.Set("Idempotency-Key", key)
	}
	a, err := client.Do(q)
	if err != nil {
		return reply{}, err
	}
	defer a.Body.Close()
	got, err := io.ReadAll(a.Body)
	if err != nil {
		return reply{}, err
	}
	r := reply{status: a.StatusCode, header: a.Header, text: string(got)}
	if err := json.Unmarshal(got, &r.body); err != nil {
		return r, fmt.Errorf("%s: %w", got, err)
	}
	return r, nil
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}

var names atomic.Int64

// unique returns a name that no other test has.
func unique(prefix string) string { return fmt.Sprintf("%s-%06d", prefix, names.Add(1)) }

// stocked returns a new SKU with this many units.
func stocked(t testing.TB, units int64) string {
	t.Helper()
	sku := unique("sku")
	if r := call(t, "PUT", "/v1/stock/"+sku, "", map[string]any{"quantity": units}); r.status != 200 {
		t.Fatalf("set stock: %d %s", r.status, r.text)
	}
	return sku
}

func want(t testing.TB, r reply, status int) reply {
	t.Helper()
	if r.status != status {
		t.Fatalf("status %d, want %d: %s", r.status, status, r.text)
	}
	return r
}
