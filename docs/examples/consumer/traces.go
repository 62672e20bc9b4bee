package main

import (
	"context"
	"log"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A tracer makes a span of each event that is consumed. The zero value makes none.
type tracer struct{ of trace.Tracer }

// newTracer exports to OTEL_EXPORTER_OTLP_ENDPOINT, if that is set.
func newTracer() tracer {
	if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" {
		return tracer{}
	}
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	return tracer{sdk.NewTracerProvider(sdk.WithBatcher(exporter)).Tracer("consumer")}
}

// consuming begins the span of an event's effect, and returns what ends it. The span links to the sale, and is not in
// its trace, because an event may be read days later, and several times.
func (t tracer) consuming(ctx context.Context, traceparent string) func() {
	if t.of == nil {
		return func() {}
	}
	header := propagation.MapCarrier{"traceparent": traceparent}
	sale := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), header))
	_, span := t.of.Start(ctx, "consume", trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithLinks(trace.Link{SpanContext: sale}))
	return func() { span.End() }
}
