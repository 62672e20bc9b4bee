package handler

import (
	"log/slog"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// The keys of what fail leaves for observe.
const (
	problemKey = "problem"
	reasonKey  = "reason"
)

// observe counts every request, and logs it: neither who the customer is, nor what is in the request.
func observe(check *validator, registry prometheus.Registerer) gin.HandlerFunc {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "orders_http_requests_total", Help: "Requests, by operation of the document, status and type of problem.",
	}, []string{"operation", "status", "problem"})
	durations := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "orders_http_request_duration_seconds", Help: "Time of a request, by operation of the document.",
		Buckets: []float64{.002, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"operation"})
	registry.MustRegister(requests, durations)
	for _, route := range check.routes { // a counter that begins with 1 has not increased, for Prometheus
		requests.WithLabelValues(route.Operation.OperationID, "500", "internal")
		requests.WithLabelValues(route.Operation.OperationID, "503", "outcome_unknown")
	}
	return func(c *gin.Context) {
		began := time.Now()
		c.Next()
		took := time.Since(began)
		operation, status, problem := check.operation(c), c.Writer.Status(), c.GetString(problemKey)
		requests.WithLabelValues(operation, strconv.Itoa(status), problem).Inc()
		durations.WithLabelValues(operation).Observe(took.Seconds())
		level := slog.LevelInfo
		about := []any{
			"method", c.Request.Method, "route", c.FullPath(), "status", status, "ms", took.Milliseconds(),
			"request_id", c.Writer.Header().Get(requestID),
		}
		if span := trace.SpanContextFromContext(c.Request.Context()); span.IsValid() {
			about = append(about, "trace_id", span.TraceID().String())
		}
		if problem != "" {
			about = append(about, "problem", problem)
		}
		if reason, ok := c.Get(reasonKey); ok && (status >= 500 || status == 401) {
			about = append(about, "error", reason)
		}
		if status >= 500 {
			level = slog.LevelError
		}
		slog.Log(c.Request.Context(), level, "request", about...)
	}
}
