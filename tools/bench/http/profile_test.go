package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each sample is the part's that it was spent for, and none is lost.
func TestSplit(t *testing.T) {
	const traces = `File: http
Type: cpu
Duration: 5.11s, Total samples = 60ms ( 1.17%)
-----------+-------------------------------------------------------
      10ms   internal/runtime/syscall/linux.Syscall6
             syscall.write
             net.(*conn).Write
             github.com/redis/go-redis/v9.(*baseClient).process
             example.com/stock/repo/stock.(*Redis).Batch
             example.com/stock/service.(*merger).inOneStep
-----------+-------------------------------------------------------
      20ms   runtime.mallocgc
             encoding/json.Marshal
             example.com/stock/handler.(*handler).answer
             github.com/gin-gonic/gin.(*Context).Next
             net/http.(*conn).serve
-----------+-------------------------------------------------------
      10ms   runtime.futex
             runtime.mcall
-----------+-------------------------------------------------------
     bytes:  16B
      10ms   runtime.scanobject
             runtime.gcBgMarkWorker.func2
             runtime.systemstack
-----------+-------------------------------------------------------
      10ms   context.WithDeadlineCause
             example.com/stock/service.(*Service).deduct
             example.com/stock/app/traces.seller.Deduct
-----------+-------------------------------------------------------
      10ms   runtime.mallocgc
             go.opentelemetry.io/otel/propagation.TraceContext.Extract
             example.com/stock/app/traces.(*Traces).Request
-----------+-------------------------------------------------------
      10ms   runtime.mapassign
             example.com/stock/repo/gate.(*Gate).Enter
-----------+-------------------------------------------------------
      10ms   runtime.selectgo
             example.com/stock/internal/batching.(*Queues[go.shape.struct_{_example.com/stock/service.store]).Do
`
	got, err := split(strings.NewReader(traces))
	want := map[string]time.Duration{
		partDriver: 10 * time.Millisecond, partHandler: 20 * time.Millisecond, partRuntime: 10 * time.Millisecond,
		partGC: 10 * time.Millisecond, partService: 20 * time.Millisecond, partTraces: 10 * time.Millisecond,
		partStore: 10 * time.Millisecond,
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestShares(t *testing.T) {
	r := &results{Shares: []share{
		{Row: "merged/mysql", Parts: map[string]float64{partHTTP: 40, partStore: 2, "nginx": 50.4, "mysql": 30}},
		{Row: ping, Parts: map[string]float64{partHTTP: 38, "nginx": 50}},
	}}
	for l, lines := range map[language][]string{
		en: {
			"| part | `merged/mysql` | gin ping |", "| net/http: reading requests, writing replies | 40 | 38 |",
			"| the store's own code: statements, gate | 2 | |", "| together | 122 | 88 |",
		},
		zh: {"| 部分 | `merged/mysql` | gin ping |", "| 合计 | 122 | 88 |"},
	} {
		text := squeeze(r.render(l))
		for _, line := range lines {
			if !strings.Contains(text, line) {
				t.Errorf("there is no line\n%s\nin\n%s", line, text)
			}
		}
	}
	if strings.Contains((&results{}).render(en), "CPU time goes") {
		t.Error("a table of nothing")
	}
}
