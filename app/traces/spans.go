package traces

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

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
