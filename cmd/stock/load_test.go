package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.com/stock/loadtest"
)

// standIn answers like a service with a strategy that is right, one that sells without end (and promises what the query says), and one that is not available.
func standIn(t *testing.T, token string, during func()) string {
	t.Helper()
	var mu sync.Mutex
	stock, orders := loadtest.Stock{}, []loadtest.Order{}
	write := func(w http.ResponseWriter, kind string, status int, v any) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	sell := func(lose bool) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if during != nil {
				during()
			}
			if stock.Quantity < 1 {
				write(w, "application/problem+json", 409, map[string]any{"type": "/problems/sold_out", "status": 409})
				return
			}
			o := loadtest.Order{
				OrderID: fmt.Sprint("o", len(orders)), SKU: stock.SKU, Quantity: 1, Read: stock.Quantity, Remaining: stock.Quantity - 1,
				Version: stock.Version, Epoch: stock.Epoch, Instance: "app-1", RequestID: r.Header.Get("X-Request-Id"),
			}
			orders = append(orders, o)
			stock.Sold++
			if !lose {
				stock.Quantity--
				stock.Version++
			}
			write(w, "application/json", 200, o)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/strategies", func(w http.ResponseWriter, _ *http.Request) {
		list := []loadtest.Strategy{
			{Name: "none", Endpoint: "/lossy", Available: true, Promise: loadtest.Promise{Scope: loadtest.Nowhere}},
			{Name: "luck", Endpoint: "/right", Available: true, Promise: loadtest.Promise{Scope: loadtest.Nowhere}},
			{Name: "right", Endpoint: "/right", Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster}},
			{Name: "liar", Endpoint: "/lossy", Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster}},
			{Name: "dead", Endpoint: "/nowhere", Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster}},
			{Name: "absent", Reason: "ZooKeeper is down"},
		}
		write(w, "application/json", 200, map[string]any{"strategies": list})
	})
	mux.HandleFunc("PUT /v1/stock/{sku}", func(w http.ResponseWriter, r *http.Request) {
		if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
			write(w, "application/problem+json", 401, map[string]any{"type": "/problems/unauthorized", "status": 401, "detail": "no"})
			return
		}
		var in struct{ Quantity int64 }
		_ = json.NewDecoder(r.Body).Decode(&in)
		mu.Lock()
		defer mu.Unlock()
		stock, orders = loadtest.Stock{SKU: r.PathValue("sku"), Quantity: in.Quantity, Initial: in.Quantity, Epoch: stock.Epoch + 1}, []loadtest.Order{}
		write(w, "application/json", 200, stock)
	})
	mux.HandleFunc("GET /v1/stock/{sku}", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		write(w, "application/json", 200, stock)
	})
	mux.HandleFunc("GET /v1/stock/{sku}/orders", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		write(w, "application/json", 200, map[string]any{"orders": orders})
	})
	mux.HandleFunc("POST /right", sell(false))
	mux.HandleFunc("POST /lossy", sell(true))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// load runs the command and returns its exit status.
func load(ctx context.Context, args ...string) (status int, stdout string, err error) {
	cmd := loadCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(new(bytes.Buffer))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(ctx)
	var e exitError
	switch {
	case errors.As(err, &e):
		return e.code, out.String(), err
	case err != nil:
		return 1, out.String(), err
	}
	return 0, out.String(), nil
}

func TestLoadExitStatus(t *testing.T) {
	t.Setenv("STOCK_ADMIN_TOKEN", "")
	url := standIn(t, "", nil)
	guarded := standIn(t, "s3cret", nil)
	for _, row := range []struct {
		args   string
		status int
		says   string // in the output or the error
	}{
		{"--url " + url + " -s right", 0, "HOLDS"},
		{"--url " + url + " -s none", 0, "As expected, since no exclusion is promised"},
		{"--url " + url + " -s none --must-race", 0, "BROKEN"},
		{"--url " + url + " -s luck", 0, "The race was not seen"},
		{"--url " + url + " -s luck --must-race", 3, "The race was not seen"},
		{"--url " + url + " -s liar", 3, "NOT KEPT"},
		{"--url " + url + " -s dead", 4, "nothing was sold"},
		{"--url " + url + " -s right,none", 0, "as"},
		{"--url " + url + " -s dead -s liar", 3, "NOT KEPT"},
		{"--url " + url + " -s all", 3, "liar"},
		{"--url " + url + " --strategies right,none", 0, "as"},
		{"--url " + url + " --strategies all", 3, "liar"},
		{"--url " + url + " -s right --expect oversold==0 --expect lost_updates==0 --expect sold_out>=60%", 0, "met         sold_out>=60%    actual 60.00%"},
		{"--url " + url + " -s right --expect accepted==21", 5, "NOT MET     accepted==21  actual 20"},
		{"--url " + url + " -s none --expect oversold==0", 5, "NOT MET     oversold==0  actual 30"},
		{"--url " + url + " -s right,none --expect oversold==0", 5, "NOT MET     none   oversold==0  actual 30"},
		{"--url " + url + " -s liar --expect oversold==0", 3, "NOT MET"},
		{"--url " + url + " -s dead --expect accepted>0", 5, "NOT MET"},
		{"--url " + url + " -s dead --expect accepted==0", 4, "met "},
		{"--url " + url + " -s right --expect p99<1h --json -", 0, `"text": "p99<1h"`},
		{"--url " + url + " -s right --json -", 0, `"format": "stock-load-report"`},
		{"--url " + url, 1, "--strategy: is missing"},
		{"--url " + url + " -s nun", 1, `"nun" is not known`},
		{"--url " + url + " -s right --must-race", 1, "--must-race: needs a strategy that may lose updates"},
		{"--url " + url + " -s right -n 0", 1, "--requests: must be 1 or more"},
		{"--url " + url + " -s right -c 0", 1, "--concurrency: must be 1 or more"},
		{"--url " + url + " -s right --quantity 0", 1, "--quantity: must be 1 or more"},
		{"--url " + url + " -s right --wait 9s --timeout 5s", 1, "--timeout: 5s must be longer"},
		{"--url " + url + " -s right --concurrency 0.5", 1, "invalid argument"},
		{"--url " + url + " -s right extra", 1, "unknown command"},
		{"--url " + url + " -s right --history /nowhere/at/all", 1, "--history: "},
		{"--url ftp://x -s right", 1, "--url: "},
		{"--url " + url + " -s absent", 2, "ZooKeeper is down"},
		{"--url " + url + "/elsewhere -s right", 2, "answers but is not a stock service"},
		{"--url http://127.0.0.1:1 -s right", 2, "cannot be reached"},
		{"--url " + guarded + " -s right", 2, "--admin-token TOKEN, or STOCK_ADMIN_TOKEN"},
		{"--url " + guarded + " -s right --admin-token guess", 2, "is not the one that the service was started with"},
		{"--url " + guarded + " -s right --admin-token s3cret", 0, "HOLDS"},
	} {
		t.Run(strings.NewReplacer(url, "URL", guarded, "GUARDED").Replace(row.args), func(t *testing.T) {
			args := append([]string{"-n", "50", "-c", "4", "--stock", "20"}, strings.Fields(row.args)...)
			status, stdout, err := load(t.Context(), args...)
			if text := fmt.Sprint(stdout, err); status != row.status || !strings.Contains(text, row.says) {
				t.Errorf("status %d, want %d with %q; said\n%s", status, row.status, row.says, text)
			}
		})
	}
}

func TestLoadInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	calls := 0
	url := standIn(t, "", func() {
		if calls++; calls == 20 {
			cancel()
		}
	})
	status, stdout, err := load(ctx, "--url", url, "-s", "right,none", "-n", "1000000", "--stock", "1000000")
	if status != 130 || !strings.Contains(stdout, "interrupted after") || !strings.Contains(stdout, "HOLDS") {
		t.Errorf("status %d, %v\n%s", status, err, stdout)
	}
}

func TestLoadWritesAHistoryForEachStrategy(t *testing.T) {
	dir := t.TempDir()
	url := standIn(t, "", nil)
	status, _, err := load(t.Context(), "--url", url, "-s", "right,none", "-n", "30", "--history", filepath.Join(dir, "run.jsonl"), "--json", filepath.Join(dir, "run.json"))
	if status != 0 {
		t.Fatal(err)
	}
	for name, want := range map[string]loadtest.Finding{"right": loadtest.Holds, "none": loadtest.Broken} {
		file, err := os.Open(filepath.Join(dir, "run."+name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		h, err := loadtest.ReadHistory(file)
		file.Close()
		if err != nil || len(h.Records) != 30 || h.Judge().Finding != want {
			t.Errorf("%s: %v, %+v", name, err, h)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	var report loadtest.Report
	if err != nil || json.Unmarshal(text, &report) != nil || len(report.Runs) != 2 {
		t.Errorf("%v, %s", err, text)
	}
}
