package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	command "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parts are what an instance does on the way of a request, and the beginnings of the names of its functions. A function
// belongs to the first part that fits.
var parts = []struct {
	name      string
	functions []string
}{
	{"net/http: connection, request, reply", []string{"net/http."}},
	{"reply as JSON", []string{"github.com/gin-gonic/gin/render."}},
	{"route, chain of handlers (gin)", []string{"github.com/gin-gonic/gin."}},
	{"request id", []string{"example.com/stock/handler.(*handler).identify"}},
	{"fields of the request, receipt or problem", []string{"example.com/stock/handler."}},
	{"metrics", []string{"example.com/stock/app/metrics."}},
	{"span, without an exporter", []string{"go.opentelemetry.io/"}},
	{"log line", []string{"log/slog."}},
	{"admission, order id, time limits", []string{"example.com/stock/service.", "example.com/stock/app"}},
	{"batch", []string{"example.com/stock/internal/batching."}},
	{"order as JSON, arguments of the script", []string{"example.com/stock/repo/stock."}},
	{"round trip to Redis (go-redis)", []string{"example.com/stock/repo.", "github.com/redis/go-redis/"}},
	{"Go's scheduler, collector and timers", []string{""}},
}

// TestParts writes a table of docs/architecture.md to the file that PARTS names: docs/refresh parts. wrk loads one
// instance. Each sample of its profiles counts for its innermost function that belongs to a part.
func TestParts(t *testing.T) {
	file := os.Getenv("PARTS")
	if file == "" {
		t.Skip("PARTS names no file")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as stock serve does
	runtime.MemProfileRate = 64 << 10                 // bytes: some thousand samples for each way
	cfg := mustConfigure(t, "--redis-url=redis://"+servers.Redis(t).Addr, "--mysql-dsn=", "--zookeeper-hosts=",
		"--drain=0s", "--addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--admin-token="+token)
	i := &instance{ended: make(chan error, 1), log: &journal{}, client: http.DefaultClient}
	i.run(t, cfg, NewLogger(io.Discard, cfg))
	var ways []way
	for _, w := range []way{
		{name: "refused", strategy: "atomic"},
		{name: "`atomic`", strategy: "atomic", stock: 1e9},
		{name: "`merged`", strategy: "merged", stock: 1e9},
	} {
		w.measure(t, i)
		ways = append(ways, w)
	}
	var table strings.Builder
	row := func(name string, cells func(way) string) {
		fmt.Fprintf(&table, "| %s ", name)
		for _, w := range ways {
			fmt.Fprint(&table, cells(w))
		}
		fmt.Fprintln(&table, "|")
	}
	row("of a request", func(w way) string { return fmt.Sprintf("| %s, µs | allocations ", w.name) })
	row("---", func(way) string { return "|---:|---:" })
	for _, p := range parts {
		row(p.name, func(w way) string { return fmt.Sprintf("| %.1f | %.1f ", w.us[p.name], w.allocated[p.name]) })
	}
	row("all", func(w way) string { return fmt.Sprintf("| %.1f | %.1f ", sum(w.us), sum(w.allocated)) })
	if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A way is a strategy with a stock, and what each part of a request takes.
type way struct {
	name, strategy string
	stock          int
	us, allocated  map[string]float64
}

func (w *way) measure(t *testing.T, i *instance) {
	sku := fmt.Sprintf("parts-%d", w.stock)
	i.must(t, http.MethodPut, fmt.Sprintf("/v1/stock/%s?quantity=%d", sku, w.stock), http.StatusOK)
	target := fmt.Sprintf("%s/v1/stock/%s/deduct?strategy=%s", i.url, sku, w.strategy)
	load(t, target, time.Second) // the scripts are known, the connections open
	before := allocations(t)
	var cpu bytes.Buffer
	if err := pprof.StartCPUProfile(&cpu); err != nil {
		t.Fatal(err)
	}
	n := load(t, target, 10*time.Second)
	pprof.StopCPUProfile()
	w.us, w.allocated = each(samples(t, cpu.Bytes(), "cpu"), nil, n), each(allocations(t), before, n)
}

// each returns what one of n requests takes.
func each(after, before map[string]float64, n float64) map[string]float64 {
	for name := range after {
		after[name] = (after[name] - before[name]) / n
	}
	return after
}

func sum(parts map[string]float64) (all float64) {
	for _, of := range parts {
		all += of
	}
	return all
}

var answered = regexp.MustCompile(`(\d+) requests in `)

// load sends requests on 30 connections, and returns how many were answered.
func load(t *testing.T, target string, d time.Duration) float64 {
	script := filepath.Join(t.TempDir(), "post.lua")
	if err := os.WriteFile(script, []byte(`wrk.method = "POST"`), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := command.Command("wrk", "-t2", "-c30", "-d", d.String(), "-s", script, target).CombinedOutput()
	found := answered.FindSubmatch(text)
	if err != nil || found == nil {
		t.Fatalf("wrk: %v\n%s", err, text)
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return n
}

func allocations(t *testing.T) map[string]float64 {
	runtime.GC() // brings the profile up to date
	var heap bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&heap, 0); err != nil {
		t.Fatal(err)
	}
	return samples(t, heap.Bytes(), "alloc_objects")
}

// samples returns the samples of a profile by parts, those of the CPU in µs.
func samples(t *testing.T, profile []byte, kind string) map[string]float64 {
	file := filepath.Join(t.TempDir(), kind)
	if err := os.WriteFile(file, profile, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := command.Command("go", "tool", "pprof", "-traces", "-unit=us", "-sample_index="+kind, file).Output()
	if err != nil {
		t.Fatalf("go tool pprof: %v", err)
	}
	byPart := map[string]float64{}
	for stack := range strings.SplitSeq(string(text), "-----------+") {
		_, stack, _ = strings.Cut(stack, "\n")
		fields := strings.Fields(stack)
		if len(fields) > 2 && fields[0] == "bytes:" { // the size of each
			fields = fields[2:]
		}
		if len(fields) < 2 {
			continue
		}
		if n, err := strconv.ParseFloat(strings.TrimSuffix(fields[0], "us"), 64); err == nil { // else it is the head
			byPart[partOf(fields[1:])] += n
		}
	}
	return byPart
}

// partOf returns the part of a stack of functions, the innermost first.
func partOf(functions []string) string {
	for _, function := range functions {
		for _, p := range parts[:len(parts)-1] {
			if slices.ContainsFunc(p.functions, func(start string) bool { return strings.HasPrefix(function, start) }) {
				return p.name
			}
		}
	}
	return parts[len(parts)-1].name
}
