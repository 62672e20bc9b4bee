package traces

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// A variable that cannot be used is named, with its value, and what can be used. The SDK would log it and go on.
func TestTheEnvironmentIsChecked(t *testing.T) {
	t.Parallel()
	const arg = "OTEL_TRACES_SAMPLER_ARG"
	for _, row := range []struct {
		name, value string
		bad         bool
	}{
		{"OTEL_TRACES_EXPORTER", "jaeger", true},
		{"OTEL_TRACES_EXPORTER", "none", false},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", true},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", true},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", false},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://", true},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318/path", false},
		{"OTEL_TRACES_SAMPLER", "sometimes", true},
		{"OTEL_TRACES_SAMPLER", "traceidratio", false},
		{arg, "1.5", true},
		{arg, "-0.1", true},
		{arg, "NaN", true},
		{arg, "1%", true},
		{arg, "0.01", false},
	} {
		_, err := readEnv(func(name string) string {
			switch name {
			case row.name:
				return row.value
			case "OTEL_TRACES_EXPORTER":
				return "otlp"
			}
			return ""
		})
		bad, is := errors.AsType[*EnvError](err)
		if is != row.bad || row.bad && (bad.Name != row.name || bad.Value != row.value) {
			t.Errorf("%s=%s: %v", row.name, row.value, err)
		}
	}
}

// recorder returns Traces whose spans a test can read.
func recorder(t *testing.T, s sdk.Sampler) (*Traces, *tracetest.SpanRecorder) {
	t.Helper()
	r := tracetest.NewSpanRecorder()
	e := environment{root: s}
	p := sdk.NewTracerProvider(sdk.WithSampler(e.sampler()), sdk.WithSpanProcessor(r))
	config := Config{Log: slog.New(slog.DiscardHandler)}
	return &Traces{Config: config, env: e, provider: p, tracer: p.Tracer("test")}, r
}

// What no request asked for has no span: the calls of health checks, renewals.
func TestOnlyRequestsAreTraced(t *testing.T) {
	t.Parallel()
	of, spans := recorder(t, sdk.AlwaysSample())
	call := func(ctx context.Context) {
		if _, ended := of.client(ctx, "GET", attribute.Int("n", 1)); ended != nil {
			ended(errors.New("no such key: sku-1"))
		}
		_, ended := of.Lock("redis-setnx")(ctx, "sku-1")
		ended(nil)
		of.ZooKeeper()(ctx, "enter")(nil)
		_, done := of.batch(ctx, []context.Context{ctx})
		done()
	}
	call(t.Context())
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans without a request", n)
	}
	ctx, span := of.tracer.Start(t.Context(), "request")
	call(ctx)
	span.End()
	if n := len(spans.Ended()); n != 5 {
		t.Errorf("%d spans of a request, want 5", n)
	}
	for _, s := range spans.Ended() {
		if s.Status().Description != "" || len(s.Events()) > 0 {
			t.Errorf("%s tells %v %v", s.Name(), s.Status(), s.Events())
		}
		for _, a := range s.Attributes() {
			if a.Value.String() == "sku-1" {
				t.Errorf("%s tells the SKU", s.Name())
			}
		}
	}
}

// A nil *Traces has no hooks, so that nothing is in the way of an instance without traces.
func TestNilHasNoHooks(t *testing.T) {
	t.Parallel()
	var none *Traces
	if none.Batch() != nil || none.Lock("") != nil || none.SQL() != nil ||
		none.ZooKeeper() != nil || none.Seller(nil) != nil {
		t.Error("a hook without traces")
	}
	if log := slog.Default(); none.Logger(log) != log || none.Close() != nil {
		t.Error("the log is another one, or there is something to close")
	}
}
