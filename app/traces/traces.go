// Package traces has the spans of an instance, by OpenTelemetry: of the waits for locks, and of the calls of Redis,
// MySQL and ZooKeeper, within those of requests, which package handler begins.
//
// It is off unless OTEL_TRACES_EXPORTER is "otlp". Then nothing is put around a client.
//
// Nothing that sells waits for a collector: spans that do not fit into a bounded queue are dropped.
package traces

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/XSAM/otelsql"
	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A Config names the instance that makes the spans. All other settings are in the environment: OTEL_*.
type Config struct {
	Version, Instance string
	SKU               bool // spans have the SKU
	Log               *slog.Logger
}

// Traces makes the spans of an instance. The zero value is off, and makes none.
type Traces struct {
	Config
	On       bool
	Provider *sdk.TracerProvider  // of the spans of requests
	calls    trace.TracerProvider // of all others
	exporter sdk.SpanExporter
}

const (
	flushTime = 3 * time.Second // longest delay of the end of a process by spans
	retryTime = 5 * time.Second // for which a batch of spans is sent again, before it is dropped
	// maxValue cuts SQL: a batch of 128 sales has placeholders of some 20 kB.
	maxValue = 1024
)

// Open reads the environment, and connects to nothing. The caller must call Close.
func Open(c Config) (Traces, error) {
	on, err := isOn()
	if err != nil || !on {
		return Traces{}, err
	}
	ctx := context.Background()
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{
		Enabled: true, InitialInterval: retryTime / 10, MaxInterval: retryTime, MaxElapsedTime: retryTime,
	}))
	if err != nil {
		return Traces{}, fmt.Errorf("export traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("stock"), semconv.ServiceVersion(c.Version),
			semconv.ServiceInstanceID(c.Instance)),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the environment last, because the last one wins
	if err != nil {
		return Traces{}, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	limits := sdk.NewSpanLimits()
	if limits.AttributeValueLengthLimit == sdk.DefaultAttributeValueLengthLimit {
		limits.AttributeValueLengthLimit = maxValue
	}
	out := &exporter{SpanExporter: client, log: c.Log}
	return to(c, out, sdk.WithResource(about), sdk.WithRawSpanLimits(limits)), nil
}

func to(c Config, e sdk.SpanExporter, options ...sdk.TracerProviderOption) Traces {
	provider := sdk.NewTracerProvider(append(options, sdk.WithBatcher(e))...)
	return Traces{c, true, provider, within{provider}, e}
}

// isOn reports whether the environment switches traces on. It refuses what would silently be another choice; the SDK
// reads the other variables.
func isOn() (bool, error) {
	known := []struct {
		variable string
		values   []string
	}{
		{"OTEL_TRACES_EXPORTER", []string{"otlp", "none"}},
		{"OTEL_EXPORTER_OTLP_PROTOCOL", []string{"http/protobuf"}},
		{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", []string{"http/protobuf"}},
		{"OTEL_TRACES_SAMPLER", []string{
			"always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off",
			"parentbased_traceidratio",
		}},
	}
	for _, row := range known {
		value := cmp.Or(os.Getenv(row.variable), row.values[0])
		if !slices.Contains(row.values, value) {
			return false, fmt.Errorf("%s: %q is none of %s", row.variable, value, strings.Join(row.values, ", "))
		}
	}
	disabled := strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true")
	return os.Getenv("OTEL_TRACES_EXPORTER") == "otlp" && !disabled, nil
}

// Close sends what is in the queue, for flushTime at most, and ends the goroutines.
func (t Traces) Close() error {
	if !t.On {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	err := t.Provider.Shutdown(ctx)
	if err != nil {
		t.Log.Warn("traces: spans were not exported before the end", "err", err)
		// The provider waits no longer for what is under way, and this ends it. ctx has ended, so that it says no more.
		_ = t.exporter.Shutdown(ctx)
	}
	return nil
}

// Lock returns the hook of the strategy's lock: a span for each wait.
func (t Traces) Lock(strategy string) func(context.Context, string) (context.Context, func(error)) {
	if !t.On {
		return nil
	}
	return func(ctx context.Context, key string) (context.Context, func(error)) {
		ctx, span := t.start(ctx, "lock "+strategy)
		if t.SKU {
			span.SetAttributes(attribute.String("stock.sku", key))
		}
		return ctx, func(err error) { end(span, err) }
	}
}

// ZooKeeper returns the hook of the session: a span for each step of an acquisition.
func (t Traces) ZooKeeper() func(context.Context, string) func(error) {
	if !t.On {
		return nil
	}
	return func(ctx context.Context, name string) func(error) {
		_, span := t.start(ctx, "zookeeper "+name, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(semconv.DBSystemNameKey.String("zookeeper")))
		return func(err error) { end(span, err) }
	}
}

func (t Traces) start(
	ctx context.Context, name string, options ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	return t.calls.Tracer("example.com/stock").Start(ctx, name, options...)
}

func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// SQL returns what makes a pool of connections with a span for each packet, in which the statements have placeholders:
// the driver puts the values in, below.
func (t Traces) SQL() func(driver.Connector) *sql.DB {
	if !t.On {
		return sql.OpenDB
	}
	return func(c driver.Connector) *sql.DB {
		return otelsql.OpenDB(c, otelsql.WithTracerProvider(t.calls), otelsql.WithAttributes(semconv.DBSystemNameMySQL),
			otelsql.WithSpanOptions(otelsql.SpanOptions{
				OmitConnResetSession: true, OmitConnectorConnect: true, OmitRows: true, DisableErrSkip: true,
			}))
	}
}

// Redis gives a client a span for each command and each pipeline, with the names of commands and not their arguments.
func (t Traces) Redis(c redis.UniversalClient) {
	if !t.On {
		return
	}
	// The error is for kinds of clients that it does not know.
	_ = redisotel.InstrumentTracing(c, redisotel.WithTracerProvider(t.calls), redisotel.WithDBStatement(false),
		redisotel.WithCallerEnabled(false), redisotel.WithDialFilter(true))
}

// A within makes spans within others alone, that is, for what a request has asked for: not for health checks and
// renewals. It leaves out the texts of errors, because they may have keys.
type within struct{ trace.TracerProvider }

func (w within) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return tracer{w.TracerProvider.Tracer(name, options...)}
}

type tracer struct{ trace.Tracer }

func (t tracer) Start(
	ctx context.Context, name string, options ...trace.SpanStartOption,
) (context.Context, trace.Span) {
	if !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, noop.Span{}
	}
	ctx, started := t.Tracer.Start(ctx, name, options...)
	return ctx, span{started}
}

type span struct{ trace.Span }

func (span) RecordError(error, ...trace.EventOption) {}

func (s span) SetStatus(code codes.Code, _ string) { s.Span.SetStatus(code, "") }

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
