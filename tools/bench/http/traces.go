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

// traced is the row of merged sales with traces on, of which 1 % are sampled.
const traced = "merged/mysql+traces"

// A followed side has instances that are traced, and a collector that takes their spans and drops them.
type followed struct {
	*rig.Side
	collector *http.Server
	ended     chan struct{} // closed when the collector has ended
}

// openTraced starts both. On error nothing is left running.
func openTraced(ctx context.Context, program string, s settings, env ...string) (*followed, error) {
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
	f.Side, err = rig.Open(ctx, rig.Options{
		Name: "traces", Binary: program, Instances: s.instances, Want: []stack.Kind{stack.Redis, stack.MySQL},
		Env: append([]string{
			storeOfOrders, "OTEL_TRACES_EXPORTER=otlp", "OTEL_TRACES_SAMPLER=traceidratio",
			"OTEL_TRACES_SAMPLER_ARG=0.01", "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String(),
		}, env...),
		Tell: rig.Progress,
	})
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
