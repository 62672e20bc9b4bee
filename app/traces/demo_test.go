package traces_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

var program stacktest.Program

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const operator = "token-of-the-operator"

// A demo has real servers, and an instance that is traced to an inbox.
type demo struct {
	*stack.Stack
	t     testing.TB
	inbox *inbox
	front string // URL of nginx
	app   *server.Server
}

// traced returns the environment that switches traces on.
func traced(url string) []string {
	return []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=50",
		"STOCK_TRACES_SKU=true",
	}
}

// newDemo starts the servers and an instance behind nginx, which is traced to an inbox of its own unless env says
// otherwise.
func newDemo(t testing.TB, kinds []server.Kind, env ...string) *demo {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{t: t, inbox: newInbox(t), Stack: stacktest.Start(t, stack.Options{
		Options: server.Options{Want: kinds}, Binary: path, AnyPort: true,
		Env: []string{"STOCK_STORE=mysql", "STOCK_ADMIN_TOKEN=" + operator},
	})}
	for _, kind := range kinds {
		if reason, missing := d.Missing()[string(kind)]; missing {
			servertest.Started(t, &server.MissingError{Program: string(kind), Install: reason})
		}
	}
	apps, err := d.Serve(t.Context(), 1, append(traced(d.inbox.URL), env...)...)
	if err != nil {
		t.Fatal(err)
	}
	d.app = apps[0]
	nginx, err := d.Front(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.front = nginx.URL
	return d
}

type answer struct {
	status int
	body   map[string]any
}

// do sends a request through nginx. The headers come as pairs.
func (d *demo) do(method, path string, headers ...string) answer {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.front+path, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+operator)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	a := answer{status: res.StatusCode}
	text, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(text, &a.body)
	}
	if err != nil {
		d.t.Fatalf("%s %s: %d %s: %v", method, path, a.status, text, err)
	}
	return a
}

// stock sets the stock of SKU a.
func (d *demo) stock(quantity string) {
	d.t.Helper()
	if a := d.do(http.MethodPut, "/v1/stock/a?quantity="+quantity); a.status != http.StatusOK {
		d.t.Fatalf("set the stock: %v", a)
	}
}

// sale is a sale of one unit of SKU a by one statement.
const sale = "/deduct_stock_atomic"

func (d *demo) sell(headers ...string) answer {
	d.t.Helper()
	return d.do(http.MethodPost, sale+"?sku=a", headers...)
}

// await returns the spans once they satisfy what is wanted of them.
func (d *demo) await(what string, ok func([]span) bool) (all []span) {
	d.t.Helper()
	servertest.Eventually(d.t, time.Minute, what, func() (bool, string) {
		all = d.inbox.all()
		var names []string
		for _, one := range all {
			names = append(names, one.name)
		}
		return ok(all), strings.Join(names, ", ")
	})
	return all
}
