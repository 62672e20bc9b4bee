// Package traces follows a request through the service with OpenTelemetry: the server span, the phases of the sale, the
// calls of Redis, MySQL and ZooKeeper, and the batch.
//
// It is off unless OTEL_TRACES_EXPORTER is "otlp": Open returns nil. All methods of a nil *Traces return nil hooks, or
// what they were given, so that no part of an instance has anything of this package in its way.
//
// Nothing that sells waits for a collector: spans that do not fit into a bounded queue are dropped. Only this package
// knows OpenTelemetry. The others have hooks, which are nil without it.
package traces

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// A Config says who is traced, and what of a sale may leave the process. The rest is in the environment: OTEL_*.
type Config struct {
	Version, Instance string
	SKU               bool // spans have the SKU
	Log               *slog.Logger
	Getenv            func(string) string
}

// Traces makes the spans of a process. nil makes none.
type Traces struct {
	Config
	provider *sdk.TracerProvider
	env      environment
	tracer   trace.Tracer
	exporter *exporter
	context  propagation.TraceContext
}

const (
	flushTime = 3 * time.Second // longest delay of the end of a process by spans
	retryTime = 5 * time.Second // for which a batch of spans is sent again, before it is dropped
	// maxLinks is the largest size of a batch of sales: see app.Config. The SDK would keep 128 links.
	maxLinks = 1000
	// maxValue cuts SQL: a batch of 128 sales has placeholders of some 20 kB.
	maxValue = 1024
)

// Open returns nil if the environment does not switch traces on. It connects to nothing. The caller must call Close.
// The error is an EnvError, or one of the exporter's own settings.
func Open(c Config) (*Traces, error) {
	e, err := readEnv(c.Getenv)
	if err != nil || !e.on {
		return nil, err
	}
	ctx := context.Background()
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: retryTime / 10, MaxInterval: retryTime, MaxElapsedTime: retryTime,
	}))
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("stock"), semconv.ServiceVersion(c.Version),
			semconv.ServiceInstanceID(c.Instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the environment last, because the last one wins
	if err != nil {
		return nil, &EnvError{Name: "OTEL_RESOURCE_ATTRIBUTES", Value: c.Getenv("OTEL_RESOURCE_ATTRIBUTES")}
	}
	limits := sdk.NewSpanLimits()
	if limits.LinkCountLimit == sdk.DefaultLinkCountLimit {
		limits.LinkCountLimit = maxLinks
	}
	if limits.AttributeValueLengthLimit == sdk.DefaultAttributeValueLengthLimit {
		limits.AttributeValueLengthLimit = maxValue
	}
	t := &Traces{Config: c, env: e, exporter: &exporter{SpanExporter: client, log: c.Log}}
	t.provider = sdk.NewTracerProvider(sdk.WithResource(about), sdk.WithRawSpanLimits(limits),
		sdk.WithSampler(e.sampler()), sdk.WithBatcher(t.exporter))
	t.tracer = t.provider.Tracer("example.com/stock")
	return t, nil
}

// Close sends what is in the queue, for flushTime at most, and ends the goroutines.
func (t *Traces) Close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.Log.Warn("traces: spans were not exported before the end", "err", err)
		// The processor goes on with its queue, and what is under way must end.
		if err := t.exporter.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Log.Debug("traces: exporter not closed", "err", err)
		}
	}
	return nil
}

// about returns the attribute of a sale of sku, if it is configured.
func (t *Traces) about(sku string) []attribute.KeyValue {
	if !t.SKU {
		return nil
	}
	return []attribute.KeyValue{attribute.String("stock.sku", sku)}
}

// recording reports whether ctx is in a sampled span. Work that nobody asked for, such as a health check, is not.
func recording(ctx context.Context) bool {
	return unsampledOf(ctx) == nil && trace.SpanFromContext(ctx).IsRecording()
}

// An exporter logs that the collector does not take spans, once until it takes some again. It returns no error, because
// the SDK would hand each to a handler that all instances of a process share.
type exporter struct {
	sdk.SpanExporter
	log *slog.Logger
	bad bool // only the batch processor calls ExportSpans, once at a time
}

func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.bad:
		e.log.Warn("traces: the collector takes no spans; sales go on, and these spans are lost", "err", err)
	case err == nil && e.bad:
		e.log.Info("traces: the collector takes spans again")
	}
	e.bad = err != nil
	return nil
}
