package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"example.com/stock/loadtest"
)

// standIn is a service with a strategy that is right, one that sells without end (with the promise in the query), and
// one that is not available.
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
				OrderID: fmt.Sprint("o", len(orders)), SKU: stock.SKU, Quantity: 1, Read: stock.Quantity,
				Remaining: stock.Quantity - 1, Version: stock.Version, Epoch: stock.Epoch, Instance: "app-1",
				RequestID: r.Header.Get("X-Request-Id"),
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
			write(w, "application/problem+json", 401, map[string]any{"type": "/problems/unauthorized", "status": 401})
			return
		}
		var in struct{ Quantity int64 }
		_ = json.NewDecoder(r.Body).Decode(&in)
		mu.Lock()
		defer mu.Unlock()
		orders = []loadtest.Order{}
		stock = loadtest.Stock{
			SKU: r.PathValue("sku"), Quantity: in.Quantity, Initial: in.Quantity, Epoch: stock.Epoch + 1,
		}
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
	stdout, _, err = run(ctx, append([]string{"load", "--recheck", "0s"}, args...)...) // a test may say otherwise
	status, _ = ended(err)
	return status, stdout, err
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
		{"--url " + url + " --strategies all", 3, "liar"},
		{
			"--url " + url + " -s right --expect oversold==0 --expect lost_updates==0 --expect sold_out>=60%", 0,
			"met         sold_out>=60%    actual 60.00%",
		},
		{"--url " + url + " -s right --expect accepted==21", 5, "NOT MET     accepted==21  actual 20"},
		{"--url " + url + " -s right,none --expect oversold==0", 5, "NOT MET     none   oversold==0  actual 30"},
		{"--url " + url + " -s liar --expect oversold==0", 3, "NOT MET"},
		{"--url " + url + " -s dead --expect accepted>0", 5, "NOT MET"},
		{"--url " + url + " -s right --expect p99<1h --json -", 0, `"text": "p99<1h"`},
		{"--url " + url + " -s right --json -", 0, `"format": "stock-load-report"`},
		{"--url " + url, 1, "--strategy: is missing"},
		{"--url " + url + " -s nun", 1, `unknown strategy "nun"; did you mean none?`},
		{"--url " + url + " -s right --must-race", 1, "--must-race: needs a strategy that may lose updates"},
		{"--url " + url + " -s right -n 0", 1, "--requests: must be 1 or more"},
		{"--url " + url + " -s right --wait 9s --timeout 5s", 1, "--timeout: 5s must be longer"},
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
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
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
	t.Parallel()
	dir := t.TempDir()
	url := standIn(t, "", nil)
	status, _, err := load(
		t.Context(), "--url", url, "-s", "right,none", "-n", "30", "--history", filepath.Join(dir, "run.jsonl"),
		"--json", filepath.Join(dir, "run.json"), "--html", filepath.Join(dir, "run.html"),
	)
	if status != 0 {
		t.Fatal(err)
	}
	if !strings.Contains(content(t, dir, "run.html"), "Broken, as expected") {
		t.Error("the page does not show the race")
	}
	for name, want := range map[string]loadtest.Finding{"right": loadtest.Holds, "none": loadtest.Broken} {
		h := readHistory(t, filepath.Join(dir, "run."+name+".jsonl"))
		if len(h.Records) != 30 || h.Judge().Finding != want {
			t.Errorf("%s: %+v", name, h)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "run.json"))
	var report loadtest.Report
	if err != nil || json.Unmarshal(text, &report) != nil || len(report.Runs) != 2 {
		t.Errorf("%v, %s", err, text)
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

// A target that cannot be used neither costs the history of an earlier run nor leaves an empty one.
func TestLoadKeepsTheLastHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.jsonl")
	if err := os.WriteFile(old, []byte("precious\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>Please log in")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"strategies":[{"name":"right","endpoint":"/right","available":true}]}`)
	}))
	defer bad.Close()
	for _, name := range []string{"old.jsonl", "new.jsonl"} {
		status, _, err := load(t.Context(), "--url", bad.URL, "-s", "right", "--history", filepath.Join(dir, name))
		const want = "answers but is not a stock service: PUT /v1/stock/load-right returned text/html"
		if status != 2 || err == nil || !strings.Contains(err.Error(), want) {
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

// The command in the history repeats the run: the same plan, seed included.
func TestLoadCommandOnFile(t *testing.T) {
	t.Parallel()
	url := standIn(t, "", nil)
	for _, args := range []string{
		"-s right -n 30 -c 3 --wait 1s --quantity 1",
		"-s right --duration 100ms --rate 50..100 --quantity 1,1 --seed 9 --arrivals even --max-in-flight 7 " +
			"--warm-up 10ms",
	} {
		path := filepath.Join(t.TempDir(), "run.jsonl")
		status, _, err := load(
			t.Context(),
			append(strings.Fields(args), "--url", url, "--stock", "5000", "--history", path)...)
		first := readHistory(t, path)
		words := strings.Fields(first.Header.Command)
		if status != 0 || strings.Join(words[:2], " ") != "stock load" {
			t.Fatalf("status %d, %v, %q", status, err, words)
		}
		status, _, err = load(t.Context(), append(words[2:], "--history", path)...)
		second := readHistory(t, path)
		if status != 0 || !reflect.DeepEqual(second.Header.Plan, first.Header.Plan) ||
			second.Header.Command != first.Header.Command {
			t.Errorf("status %d, %v\nfirst  %+v\nsecond %+v", status, err, first.Header.Plan, second.Header.Plan)
		}
	}
}

// The commands of loadtest/README.md: the wrong shop is proved wrong, and the right one is not accused, by load and
// from the store alone.
func TestLoadOfSomebodyElsesService(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "shop")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../loadtest/examples/shop").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, row := range []struct {
		flag   string
		status int
		says   string
	}{
		{"-fixed=false", exitVerdict, "pairs of orders read the same quantity"},
		{"-fixed", 0, "HOLDS: 100 = 0 remaining + 100 sold"},
	} {
		t.Run(row.flag, func(t *testing.T) {
			url := startShop(t, program, row.flag)
			for _, mapping := range []string{"mapping.yaml", "mapping-least.yaml"} {
				args := []string{"--mapping", "../../loadtest/examples/shop/" + mapping, "--url", url, "--sku", "book"}
				history := filepath.Join(t.TempDir(), "run.jsonl")
				status, out, err := load(
					t.Context(),
					append(args, "-c", "30", "-n", "240", "--stock", "100", "--history", history)...)
				if status != row.status || mapping == "mapping.yaml" && !strings.Contains(out, row.says) ||
					!strings.Contains(out, "not told") {
					t.Errorf("%s: status %d, want %d with %q, %v\n%s", mapping, status, row.status, row.says, err, out)
				}
				// The command that --set prints is for the same API.
				set := []string{"--mapping", args[1], "--url", url, "--sku", "pen", "--set", "5"}
				if status, out := verdict(t, set...); status != 0 ||
					!strings.Contains(out, "--mapping "+args[1]+" --initial 5") {
					t.Errorf("%s: --set has status %d\n%s", mapping, status, out)
				}
				accepted := regexp.MustCompile(`accepted (\d+)`).FindStringSubmatch(out)[1]
				if status, out := verdict(
					t,
					append(args, "--initial", "100", "--accepted", accepted)...); status != row.status {
					t.Errorf("%s: verdict has status %d, want %d\n%s", mapping, status, row.status, out)
				}
			}
		})
	}
}

// startShop starts the example and returns its address.
func startShop(t *testing.T, program, flag string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, flag, "-addr", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	_, url, found := strings.Cut(strings.TrimSpace(line), " sells at ")
	if err != nil || !found {
		t.Fatalf("%q, %v", line, err)
	}
	return url
}

func TestLoadPrintsAMapping(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../../loadtest/mapping/shops/medusa.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// What the file needs from the environment is not set.
	if status, out, err := load(t.Context(), "--mapping", "medusa", "--print"); status != 0 || out != string(want) {
		t.Errorf("status %d, %v\n%s", status, err, out)
	}
}

// Flags that are wrong, or exclude each other, are refused before the target is asked, with the name of one of them.
func TestLoadRefusesFlags(t *testing.T) {
	t.Parallel()
	good := "../../loadtest/examples/shop/mapping.yaml"
	ids := file(t, "ids.yaml", `{"ids":{"a":{"x":1}},"read":{"path":"/a","quantity":"n"},`+
		`"deduct":{"path":"/b","accepted":{"status":200}}}`)
	bad := file(t, "bad.yaml", "name: x\nreed: {path: /a}\n")
	for args, says := range map[string]string{
		"-s right --rate 100 -c 5":             "--concurrency: is for the closed loop",
		"-s right --duration 1s -n 5":          "--duration: cannot stand with --requests",
		"-s right --duration 0s":               "--duration: must be longer than 0s",
		"-s right --max-in-flight 5":           "--max-in-flight: is for the open loop: give --rate too",
		"-s right --max-in-flight 0 --rate 5":  "--max-in-flight: must be 1 or more",
		"-s right --rate fast":                 "--rate: must be requests per second",
		"-s right --skus 0":                    "--skus: must be 1 or more",
		"-s right --quantity 5..1":             "--quantity: must be 1 or more",
		"-s right --expect oversold=0":         `--expect: "oversold=0": "=" is no comparison`,
		"-s right --json /nowhere/at/all":      "--json: ",
		"--mapping " + good + " -s none":       "--strategy: cannot stand with --mapping",
		"--mapping " + good + " --store redis": "--store: cannot stand with --mapping",
		"--mapping " + good + " --wait 1s":     "--wait: cannot stand with --mapping",
		"--mapping " + good + " --must-race":   "--must-race: cannot stand with --mapping",
		"--mapping " + good:                    "--sku: is needed with --mapping",
		"--sku book --mapping nowhere.yaml":    "--mapping: open nowhere.yaml",
		"--sku book --mapping medus":           `unknown mapping "medus"; did you mean medusa?`,
		"--print":                              "--print: is for --mapping",
		"--sku b --mapping " + ids:             "--sku: is b, of which the mapping has no ids; there is a",
		"--sku a --skus 2 --mapping " + ids:    "--sku: is a-1, of which the mapping has no ids",
		"--warm-up 1s --mapping " + ids:        "--warm-up: cannot stand with a mapping that has ids",
		"--sku book --mapping " + bad:          "line 2: reed: is no key of the file; there is ",
	} {
		// Nothing listens there: a refusal of the flags shows that the target was not asked.
		status, out, err := load(t.Context(), strings.Fields("--url http://127.0.0.1:1 "+args)...)
		if status != 1 || !strings.Contains(fmt.Sprint(err), says) {
			t.Errorf("%s: status %d, %v; want 1 with %q\n%s", args, status, err, says, out)
		}
	}
	for _, args := range []string{"--initial 100", "--accepted 3", ""} {
		status, out := verdict(
			t,
			append(strings.Fields(args), "--sku", "book", "--url", "http://127.0.0.1:1",
				"--mapping", strings.Replace(good, "mapping.yaml", "mapping-least.yaml", 1))...)
		if status != exitTarget {
			t.Errorf("%s: %d %s", args, status, out)
		}
	}
	if status, out := verdict(t, "--mapping", good); status != 1 || !strings.Contains(out, "--sku: is needed") {
		t.Errorf("without a SKU: %d %s", status, out)
	}
}
