package handler

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// A note is what the functions that handle a request tell each other, for its log line and its reply.
type note struct {
	requestID string
	strategy  string
	problem   string // the type of the problem in the reply
	stream    bool   // the reply lasts as long as its client
}

// noteKey is the key of the note in the gin context.
const noteKey = "note"

// noteOf returns the note of a request, which identify has made.
func noteOf(c *gin.Context) *note { return c.MustGet(noteKey).(*note) }

// goodRequestID reports whether a client's request id may appear in logs and orders: it must match
// ^[A-Za-z0-9._:-]{1,64}$.
func goodRequestID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(id) && len(id) <= 64
}

// requestID returns the id of the request.
func requestID(c *gin.Context) string { return noteOf(c).requestID }

// identify gives every request an id, and adds this id and the name of the instance to the reply.
func (h *handler) identify(c *gin.Context) {
	id := c.GetHeader("X-Request-Id")
	if !goodRequestID(id) {
		id = uuid.NewString()
	}
	c.Set(noteKey, &note{requestID: id})
	c.Header("X-Request-Id", id)
	c.Writer.Header()["X-Instance"] = h.instance
}

// trace begins the span of every request but those of probes and of Prometheus, in the trace of its traceparent.
func (h *handler) trace() gin.HandlerFunc {
	options := []otelgin.Option{
		otelgin.WithTracerProvider(h.Traces), otelgin.WithPropagators(propagation.TraceContext{}),
		otelgin.WithGinFilter(func(c *gin.Context) bool { return !routine(routeOf(c)) }),
	}
	if !h.TracePaths { // otelgin sets the path, and a later value of an attribute replaces an earlier one
		options = append(options, otelgin.WithSpanStartOptions(trace.WithAttributes(semconv.URLPath("not shown"))))
	}
	return otelgin.Middleware("", options...)
}

// traceID returns the id of the trace of ctx, sampled or not, or "" if the request is not traced.
func traceID(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() {
		return ""
	}
	return span.TraceID().String()
}

// routeOf returns the template of the request's route.
func routeOf(c *gin.Context) string {
	return cmp.Or(c.FullPath(), "none") // unknown paths must not become metric labels
}

// routine reports whether the requests of a route come all the time, from what watches the service.
func routine(route string) bool {
	return route == "/livez" || route == "/readyz" || route == "/metrics"
}

// measure counts and logs every request once.
func (h *handler) measure(c *gin.Context) {
	began := time.Now()
	c.Next()
	took := time.Since(began)
	route, ctx, n := routeOf(c), c.Request.Context(), noteOf(c)
	if !n.stream { // a stream lasts as long as its client, so its duration is not a latency
		h.Meter.Request(route, c.Request.Method, c.Writer.Status(), took)
	}
	if n.problem != "" {
		h.Meter.Problem(route, c.Request.Method, n.problem)
		trace.SpanFromContext(ctx).SetAttributes(attribute.String("stock.problem", n.problem))
	}
	level := slog.LevelInfo
	if routine(route) {
		level = slog.LevelDebug
	}
	var traced slog.Attr // empty, it is left out
	if id := traceID(ctx); id != "" {
		traced = slog.String("trace_id", id)
	}
	h.Log.LogAttrs(ctx, level, "request",
		slog.String("request_id", n.requestID),
		slog.String("method", shorten(c.Request.Method)),
		slog.String("path", shownPath(c)),
		slog.Int("status", c.Writer.Status()),
		slog.String("strategy", n.strategy),
		slog.String("problem", n.problem),
		slog.Duration("took", took),
		traced,
	)
}

// recoverPanic turns a panic into the reply for an internal error.
func (h *handler) recoverPanic(c *gin.Context) {
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			h.Log.ErrorContext(c.Request.Context(), "panic",
				"value", fmt.Sprint(r), "stack", string(debug.Stack()), "request_id", requestID(c))
			h.answer(c, h.rowOf(errInternal), errInternal)
		}
	}()
	c.Next()
}
