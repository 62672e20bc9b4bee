package handler_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/orders/handler"
	"example.com/stock/orders/internal/mariadb"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
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
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, dsn, err = mariadb.Start(); err != nil {
		fmt.Println("start MariaDB (SKIP_SERVERS=1 does without):", err)
		return 1
	}
	defer server.Stop()
	if store, err = repo.Open(dsn, repo.Options{Connections: 40, Events: true}); err == nil {
		_, err = store.Migrate(context.Background())
	}
	if err == nil {
		routes, err = routesOf(store)
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

func routesOf(s *repo.Store) (*gin.Engine, error) {
	return handler.New(handler.Options{Store: s, Who: believing{}, Instance: "test", Most: 100, Limits: limits})
}

var limits = service.Limits{Open: 15, Units: 1000}

// believing takes the token for the name of the customer, who has all scopes.
type believing struct{}

func (believing) Identify(_ context.Context, token string) (handler.Identity, error) {
	if token == "" {
		return handler.Identity{}, handler.ErrToken
	}
	return handler.Identity{Customer: token, Scopes: []string{"stock:read", "stock:write"}}, nil
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

// sendIf sends a request of ann with an If-Match; "": none.
func sendIf(tag, method, path string, body any) (reply, error) {
	header := http.Header{"Idempotency-Key": {unique("key")}}
	if tag != "" {
		header.Set("If-Match", tag)
	}
	return do(web.URL, method, path, "ann", header, body)
}

func sendTo(service, method, path, key, customer string, body any) (reply, error) {
	header := http.Header{}
	if key != "" {
		header.Set("Idempotency-Key", key)
	}
	return do(service, method, path, customer, header, body)
}

func do(service, method, path, customer string, header http.Header, body any) (reply, error) {
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
	q.Header = header
	q.Header.Set("Authorization", "Bearer "+customer)
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
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

const day = 24 * time.Hour

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
