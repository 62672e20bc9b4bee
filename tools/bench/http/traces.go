package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"example.com/stock/internal/stack"
	"example.com/stock/tools/bench/rig"
)

// traced is the row of merged sales with traces, of which 1 % are sampled, in two instances of four.
const traced = "merged/mysql+traces"

// pairedFor is how long that row is measured at least, in seconds: /proc counts CPU time in hundredths of a second.
const pairedFor = 10

// A followed side has instances that are traced, and a collector that takes their spans and drops them.
type followed struct {
	*rig.Side
	collector *http.Server
	ended     chan struct{} // closed when the collector has ended
}

// openTraced starts both. On error nothing is left running. If half is set, the first and the last of four instances
// are traced, so that neither kind comes before the other; else all are.
func openTraced(ctx context.Context, program string, s settings, half bool, env ...string) (*followed, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &followed{ended: make(chan struct{}), collector: &http.Server{
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }),
	}}
	go func() {
		defer close(f.ended)
		_ = f.collector.Serve(listener)
	}()
	// By the trace id: nginx asks for a trace of every request.
	traces := []string{
		"OTEL_TRACES_EXPORTER=otlp", "OTEL_TRACES_SAMPLER=traceidratio", "OTEL_TRACES_SAMPLER_ARG=0.01",
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(),
	}
	o := rig.Options{
		Name: "traces", Binary: program, Instances: s.instances, Want: []stack.Kind{stack.Redis, stack.MySQL},
		Env: append([]string{storeOfOrders}, env...), Tell: rig.Progress,
	}
	if half {
		o.Each = [][]string{traces, nil, nil, traces}
	} else {
		o.Env = append(o.Env, traces...)
	}
	f.Side, err = rig.Open(ctx, o)
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *followed) close() error {
	if f == nil {
		return nil
	}
	var err error
	if f.Side != nil {
		err = f.Side.Close()
	}
	err = errors.Join(err, f.collector.Close())
	<-f.ended
	return err
}

// A half is what one kind of instances of the traced row took for each sale.
type half struct{ cpu, done float64 }

func (h half) each() float64 { return h.cpu / max(h.done, 1) }

// onAndOff measures the row traced: all instances sell the same at the same time behind the same nginx, so that
// whatever else slows them down slows down both kinds. They are started anew: two processes of one program differ by
// some percent for as long as they live.
func (c *contest) onAndOff(ctx context.Context, j job, sku string) (outcome, error) {
	f := c.traced
	for _, server := range f.Instances() {
		if err := server.Restart(ctx); err != nil {
			return outcome{}, err
		}
	}
	if err := c.warm(ctx, j, sku+"-warm-up"); err != nil {
		return outcome{}, err
	}
	longer := *c
	longer.settings.seconds = max(c.settings.seconds, pairedFor)
	before, err := f.halves(ctx, j.strategy)
	if err != nil {
		return outcome{}, err
	}
	o, err := longer.wrk(ctx, j, sku)
	if err != nil {
		return o, err
	}
	after, err := f.halves(ctx, j.strategy)
	if err != nil {
		return o, err
	}
	var of [4]half
	for i := range of {
		of[i] = half{after[i].cpu - before[i].cpu, after[i].done - before[i].done}
	}
	on := half{of[0].cpu + of[3].cpu, of[0].done + of[3].done}
	off := half{of[1].cpu + of[2].cpu, of[1].done + of[2].done}
	o.Paired = &paired{
		On: round3(on.each()), Off: round3(off.each()), Control: round3(of[1].each() / max(of[2].each(), 1)),
	}
	return o, nil
}

// A paired outcome has µs of CPU for each sale, of instances with traces and of others beside them.
type paired struct {
	On      float64 `json:"on_us"`
	Off     float64 `json:"off_us"`
	Control float64 `json:"control"` // one instance without traces, divided by another one
}

// paired returns what a sale takes with of, in place of what an instance without traces takes, divided by what it takes
// without traces; nginx and the store are part of both.
func (s *series) paired(of func(*paired) float64) (spread, bool) {
	if s == nil {
		return spread{}, false
	}
	var all []float64
	for _, o := range s.Rounds {
		if p := o.Paired; p != nil {
			rest := o.CPU[rig.PartNginx] + o.CPU["mysql"]
			all = append(all, (rest+of(p))/(rest+p.Off))
		}
	}
	return spreadOf(all)
}

// halves reads what each instance has taken and sold since it started.
func (f *followed) halves(ctx context.Context, strategy string) (list [4]half, err error) {
	for i, server := range f.Instances() {
		us, ok := rig.ProcessTime(server.Pid())
		if !ok {
			return list, errors.New("there is no CPU time of " + server.Name)
		}
		outcomes, err := f.OutcomesOf(ctx, strategy, server)
		if err != nil {
			return list, err
		}
		list[i] = half{us, float64(outcomes["accepted"])}
	}
	return list, nil
}
