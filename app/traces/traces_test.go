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

// A variable by which spans would be made in another way, or not at all, is refused.
func TestTheEnvironmentIsChecked(t *testing.T) {
	for _, row := range []struct {
		variable, value string
		on, bad         bool
	}{
		{"OTEL_TRACES_EXPORTER", "jaeger", false, true},
		{"OTEL_TRACES_EXPORTER", "none", false, false},
		{"OTEL_TRACES_EXPORTER", "", false, false},
		{"OTEL_SDK_DISABLED", "true", false, false},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", false, true},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", false, true},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", true, false},
		{"OTEL_TRACES_SAMPLER", "some\ntimes", false, true},
		{"OTEL_TRACES_SAMPLER", "traceidratio", true, false},
	} {
		t.Run(row.variable+"="+row.value, func(t *testing.T) {
			t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
			t.Setenv(row.variable, row.value)
			on, err := isOn()
			if on != row.on || (err != nil) != row.bad {
				t.Errorf("on: %v, %v", on, err)
			}
		})
	}
}

// What no request asked for has no span: health checks, renewals. The spans of a request tell neither the SKU nor what
// an error says, unless they may.
func TestOnlyRequestsAreTraced(t *testing.T) {
	for name, tells := range map[string]bool{"without the SKU": false, "with the SKU": true} {
		t.Run(name, func(t *testing.T) {
			spans := tracetest.NewInMemoryExporter()
			of := to(Config{SKU: tells, Log: slog.New(slog.DiscardHandler)}, spans, sdk.WithSampler(sdk.AlwaysSample()))
			t.Cleanup(func() { _ = of.Close() })
			call := func(ctx context.Context) {
				_, ended := of.Lock("redis-setnx")(ctx, "sku-1")
				ended(errors.New("no such key: sku-1"))
				of.ZooKeeper()(ctx, "enter")(nil)
				_, one := of.calls.Tracer("a library").Start(ctx, "GET")
				one.RecordError(errors.New("no such key: sku-1"))
				end(one, errors.New("no such key: sku-1"))
			}
			call(t.Context())
			ctx, request := of.Provider.Tracer("test").Start(t.Context(), "request")
			call(ctx)
			request.End()
			if err := of.Provider.ForceFlush(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended := spans.GetSpans()
			if len(ended) != 4 {
				t.Errorf("%d spans, want those of the request", len(ended))
			}
			told := 0
			for _, s := range ended {
				if s.Status.Description != "" || len(s.Events) > 0 {
					t.Errorf("%s tells %v %v", s.Name, s.Status, s.Events)
				}
				for _, a := range s.Attributes {
					if a == attribute.String("stock.sku", "sku-1") {
						told++
					}
				}
			}
			if told > 0 != tells {
				t.Errorf("%d spans have the SKU", told)
			}
		})
	}
}

// Without traces, nothing is put around a lock or a session.
func TestOff(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "")
	none, err := Open(Config{})
	if err != nil || none.On || none.Lock("") != nil || none.ZooKeeper() != nil || none.Close() != nil {
		t.Errorf("%+v, %v", none, err)
	}
}
