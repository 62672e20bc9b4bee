package traces

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// Request begins the server span of a request, in the trace of its traceparent. A path may name a SKU or an order, so
// it is an attribute only if SKUs are.
func (t *Traces) Request(r *http.Request, route string) (context.Context, func(status int, problem string)) {
	method := r.Method
	if !slices.Contains(methods(), method) {
		method = "HTTP" // a client may send any word
	}
	headers := carrier{r.Header}
	if id := t.dropped(headers.Get("traceparent")); id != "" {
		return &unsampled{r.Context(), id}, func(int, string) {}
	}
	ctx := t.context.Extract(r.Context(), headers)
	name := method + " " + route
	if route == "none" {
		name = method
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	if !span.IsRecording() {
		return ctx, func(int, string) {}
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.URLScheme(scheme))
	if route != "none" {
		span.SetAttributes(semconv.HTTPRoute(route))
	}
	if t.SKU {
		span.SetAttributes(semconv.URLPath(r.URL.Path))
	}
	return ctx, func(status int, problem string) {
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		if problem != "" {
			span.SetAttributes(attribute.String("stock.problem", problem))
		}
		if status >= 500 {
			span.SetAttributes(semconv.ErrorTypeKey.String(problem))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

// dropped returns the trace id of a traceparent if the request is not sampled, as nearly all are not. So a span is not
// begun for them, and the header is read without an allocation. "" leaves it to the SDK: also for a header that this
// does not know, such as one of a later version.
func (t *Traces) dropped(traceparent string) (id string) {
	const begin, parent, flags, end = 3, 36, 53, 55 // 00-trace-parent-flags
	if len(traceparent) != end || traceparent[:begin] != "00-" || traceparent[parent-1] != '-' ||
		traceparent[flags-1] != '-' {
		return ""
	}
	id = traceparent[begin : parent-1]
	traceID, err := trace.TraceIDFromHex(id)
	_, bad := trace.SpanIDFromHex(traceparent[parent : flags-1])
	asked := traceparent[flags:] == "01"
	if err != nil || bad != nil || !asked && traceparent[flags:] != "00" {
		return ""
	}
	sampled := asked
	if !t.env.parentBased {
		p := sdk.SamplingParameters{ParentContext: context.Background(), TraceID: traceID}
		sampled = t.env.root.ShouldSample(p).Decision != sdk.Drop
	}
	if sampled {
		return ""
	}
	return id
}

// A carrier has the headers of a request. Header.Get would write each name anew, with an allocation, for every request.
type carrier struct{ http.Header }

func (c carrier) Get(key string) string {
	var values []string
	switch key {
	case "traceparent":
		values = c.Header["Traceparent"]
	case "tracestate":
		values = c.Header["Tracestate"]
	}
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func (c carrier) Keys() []string { return slices.Collect(maps.Keys(c.Header)) }

func methods() []string {
	return []string{
		http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace,
	}
}

// An unsampled is the ctx of a request that is not sampled. It has no span, and who looks for one need not look through
// the whole ctx.
type unsampled struct {
	context.Context
	id string // of the trace
}

// unsampledKey is the context key of an unsampled.
type unsampledKey struct{}

func (u *unsampled) Value(key any) any {
	if _, is := key.(unsampledKey); is {
		return u
	}
	return u.Context.Value(key)
}

func unsampledOf(ctx context.Context) *unsampled {
	u, _ := ctx.Value(unsampledKey{}).(*unsampled)
	return u
}

// ID returns the trace id of ctx, also of a trace that is not sampled, or "".
func (t *Traces) ID(ctx context.Context) string {
	if u := unsampledOf(ctx); u != nil {
		return u.id
	}
	if c := trace.SpanContextFromContext(ctx); c.IsValid() {
		return c.TraceID().String()
	}
	return ""
}

// SampledID is ID, but "" for a trace that is not sampled: nobody could look at it.
func (t *Traces) SampledID(ctx context.Context) string {
	if unsampledOf(ctx) != nil || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ""
	}
	return t.ID(ctx)
}

// Logger returns log with the trace id in all lines about a request. One that has it already stays as it is.
func (t *Traces) Logger(log *slog.Logger) *slog.Logger {
	if t == nil {
		return log
	}
	return slog.New(lines{log.Handler(), t})
}

const traceKey = "trace_id"

type lines struct {
	slog.Handler
	of *Traces
}

func (l lines) Handle(ctx context.Context, r slog.Record) error {
	if id := l.of.ID(ctx); id != "" {
		has := false
		r.Attrs(func(a slog.Attr) bool { has = a.Key == traceKey; return !has })
		if !has {
			r = r.Clone()
			r.AddAttrs(slog.String(traceKey, id))
		}
	}
	return l.Handler.Handle(ctx, r)
}

func (l lines) WithAttrs(list []slog.Attr) slog.Handler {
	return lines{l.Handler.WithAttrs(list), l.of}
}

func (l lines) WithGroup(name string) slog.Handler { return lines{l.Handler.WithGroup(name), l.of} }
