package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/stock/loadtest"
)

// spoiled stands in front of a service that is right, until spoil says that it has answered a request itself. n counts the deductions.
func spoiled(t *testing.T, spoil func(w http.ResponseWriter, r *http.Request, n int64) bool) *httptest.Server {
	t.Helper()
	behind, err := url.Parse(standIn(t, "", nil))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	transport := new(http.Transport)
	t.Cleanup(transport.CloseIdleConnections)
	proxy.Transport = transport
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	var posts atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := posts.Load()
		if r.Method == http.MethodPost {
			n = posts.Add(1)
		}
		if !spoil(w, r, n) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func html(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html>Please log in")
}

// However the target misbehaves, what happened is said in words, with the right exit status, and what was done before is on file.
func TestLoadOfATargetThatMisbehaves(t *testing.T) {
	const good = 10 // deductions before it begins
	posts := func(does func(w http.ResponseWriter, r *http.Request)) func(http.ResponseWriter, *http.Request, int64) bool {
		return func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if r.Method != http.MethodPost || n <= good {
				return false
			}
			does(w, r)
			return true
		}
	}
	for _, row := range []struct {
		name   string
		spoil  func(w http.ResponseWriter, r *http.Request, n int64) bool
		args   string
		status int
		says   string
	}{
		{"answers HTML", posts(func(w http.ResponseWriter, _ *http.Request) { html(w) }), "", 0, "4 x status 200 with text/html, which is no reply of a stock service"},
		{"closes half-way", posts(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "", 0, "no whole reply: "},
		{"truncates", posts(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "500")
			fmt.Fprint(w, `{"order_id":"`)
		}), "", 0, "no whole reply: unexpected EOF"},
		{"is slow", posts(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "--timeout 2s", 0, "no whole reply: no reply within the timeout"},
		{"is slow, and customers keep coming", posts(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), "--timeout 2s --rate 1000", 0, "no whole reply: no reply within the timeout"},
		{"refuses the orders", func(w http.ResponseWriter, r *http.Request, _ int64) bool {
			if strings.HasSuffix(r.URL.Path, "/orders") {
				html(w)
				return true
			}
			return false
		}, "", 4, "the orders could not be read in one piece with the stock"},
		{"forgets the stock", func(w http.ResponseWriter, r *http.Request, n int64) bool {
			if r.Method == http.MethodGet && n > 0 {
				w.WriteHeader(http.StatusNotFound)
				return true
			}
			return false
		}, "--expect oversold==0", 5, "NOT MET     oversold==0  actual at least 0, the evidence is incomplete"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "run.jsonl")
			args := []string{"--url", spoiled(t, row.spoil).URL, "-s", "right", "-n", fmt.Sprint(good + 4), "--stock", "100", "--history", path}
			if !strings.Contains(row.args, "--rate") {
				args = append(args, "-c", "2")
			}
			status, stdout, err := load(t.Context(), append(args, strings.Fields(row.args)...)...)
			if status != row.status || !strings.Contains(stdout, row.says) {
				t.Errorf("status %d, want %d with %q; %v\n%s", status, row.status, row.says, err, stdout)
			}
			if h := readHistory(t, path); len(h.Records) != good+4 || h.End == nil {
				t.Errorf("%d records on file, end %v", len(h.Records), h.End)
			}
		})
	}
}

func readHistory(t *testing.T, path string) *loadtest.History {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	h, err := loadtest.ReadHistory(file)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A target that goes down in the middle leaves what was done before, and no verdict.
func TestLoadOfATargetThatGoesDown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	var server *httptest.Server
	down := sync.OnceFunc(func() {
		server.Listener.Close()
		server.CloseClientConnections()
	})
	server = spoiled(t, func(_ http.ResponseWriter, r *http.Request, n int64) bool {
		if r.Method == http.MethodPost && n > 10 {
			down()
			panic(http.ErrAbortHandler)
		}
		return false
	})
	status, stdout, err := load(t.Context(), "--url", server.URL, "-s", "right", "-n", "40", "-c", "4", "--history", path)
	if status != 4 || !strings.Contains(stdout, "the final stock could not be read: "+server.URL) {
		t.Errorf("status %d, %v\n%s", status, err, stdout)
	}
	h := readHistory(t, path)
	unsent := slices.ContainsFunc(h.Records, func(r loadtest.Record) bool { return strings.HasPrefix(r.Error, "not sent: ") })
	if len(h.Records) != 40 || !unsent || h.End == nil || !strings.Contains(h.End.Stocks[0].Gap, "cannot be reached") || h.Judge().Accepted < 1 {
		t.Errorf("%d records on file, some not sent: %v; end %+v", len(h.Records), unsent, h.End)
	}
}

// A target that cannot be used costs no history of an earlier run, and leaves no empty one.
func TestLoadKeepsTheLastHistory(t *testing.T) {
	dir := t.TempDir()
	old := filepath.Join(dir, "old.jsonl")
	if err := os.WriteFile(old, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := spoiled(t, func(w http.ResponseWriter, r *http.Request, _ int64) bool {
		if r.Method == http.MethodPut {
			html(w)
			return true
		}
		return false
	})
	for _, name := range []string{"old.jsonl", "new.jsonl"} {
		status, _, err := load(t.Context(), "--url", bad.URL, "-s", "right", "--history", filepath.Join(dir, name))
		if status != 2 || err == nil || !strings.Contains(err.Error(), "answers but is not a stock service: PUT /v1/stock/load-right returned text/html") {
			t.Errorf("status %d, %v", status, err)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "precious\n" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "new.jsonl")); err == nil {
		t.Error("an empty history was left behind")
	}
	status, _, err := load(t.Context(), "--url", standIn(t, "", nil), "-s", "right", "-n", "3", "--history", old)
	if h := readHistory(t, old); status != 0 || len(h.Records) != 3 {
		t.Errorf("status %d, %v, %d records", status, err, len(h.Records))
	}
}

// Flags that cannot stand together are refused before the target is asked, by the name of one of them.
func TestLoadFlagsThatExcludeEachOther(t *testing.T) {
	for args, says := range map[string]string{
		"--rate 100 -c 5":                     "--concurrency: is for the closed loop",
		"--rate 100 --ramp-up 1s":             "--ramp-up: is for the closed loop",
		"--rate 1..9":                         "--rate: 1..9 rises or falls over a time: give --duration",
		"--rate 1..9 --duration 1s -n 5":      "--duration: cannot stand with --requests",
		"--duration 1s -n 5":                  "--duration: cannot stand with --requests",
		"--duration 0s":                       "--duration: must be longer than 0s",
		"--duration 1s --ramp-up 2s":          "--ramp-up: 2s must be shorter than the duration",
		"--max-in-flight 5":                   "--max-in-flight: is for the open loop: give --rate too",
		"--max-in-flight 0 --rate 5":          "--max-in-flight: must be 1 or more",
		"--arrivals even":                     "--arrivals: are for the open loop: give --rate too",
		"--arrivals odd --rate 5":             "--arrivals: must be poisson or even",
		"--rate 0":                            "--rate: a rate of 0 sends nothing",
		"--rate fast":                         "--rate: must be requests per second",
		"--skew hot:0.5":                      "--skew: hot:0.5 needs several SKUs: give --skus too",
		"--skew cold --skus 2":                "--skew: must be uniform, zipf:EXPONENT",
		"--skus 0":                            "--skus: must be 1 or more",
		"--quantity 5..1":                     "--quantity: must be 1 or more",
		"--warm-up -1s":                       "--warm-up: must not be negative",
		"--expect oversold=0":                 `--expect: "oversold=0": "=" is no comparison`,
		"--expect oversell==0":                `there is no figure "oversell"; there are oversold, lost_updates`,
		"--expect p99<50":                     "is not a time with its unit, such as 50ms",
		"--json /nowhere/at/all":              "--json: ",
		"--stock -1":                          "--stock: must not be negative",
		"--expect oversold==0 --timeout -1ms": "--timeout: must not be negative",
	} {
		// Nothing listens there: to see a refusal of the flags, the target must not have been asked.
		status, _, err := load(t.Context(), append([]string{"--url", "http://127.0.0.1:1", "-s", "right"}, strings.Fields(args)...)...)
		if status != 1 || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: status %d, %v; want 1 with %q", args, status, err, says)
		}
	}
}

// The command on file runs the same again: the same plan, seed included.
func TestLoadCommandOnFile(t *testing.T) {
	url := standIn(t, "", nil)
	for _, args := range []string{
		"-s right -n 30 -c 3 --wait 1s --ramp-up 10ms --quantity 1 --cold",
		"-s right --duration 100ms --rate 50..100 --quantity 1,1 --seed 9 --arrivals even --max-in-flight 7 --warm-up 10ms",
	} {
		path := filepath.Join(t.TempDir(), "run.jsonl")
		status, _, err := load(t.Context(), append(strings.Fields(args), "--url", url, "--stock", "5000", "--history", path)...)
		first := readHistory(t, path)
		words := strings.Fields(first.Header.Command)
		if status != 0 || strings.Join(words[:2], " ") != "stock load" {
			t.Fatalf("status %d, %v, %q", status, err, words)
		}
		status, _, err = load(t.Context(), append(words[2:], "--history", path)...)
		second := readHistory(t, path)
		if status != 0 || !reflect.DeepEqual(second.Header.Plan, first.Header.Plan) || second.Header.Command != first.Header.Command {
			t.Errorf("status %d, %v\nfirst  %+v\nsecond %+v", status, err, first.Header.Plan, second.Header.Plan)
		}
	}
}
