package app

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/XSAM/otelsql"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/orders/config"
)

// traces sends a span of every request and of its statements to a collector. nil: it does not. Nothing waits for the
// collector: spans beyond a queue are dropped. OTEL_TRACES_SAMPLER says which requests are traced; by default all are.
type traces struct{ provider *sdk.TracerProvider }

func newTraces(ctx context.Context, c *config.Config, version string) (*traces, error) {
	if c.Traces.Endpoint == "" {
		return nil, nil
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.Traces.Endpoint),
		otlptracehttp.WithTimeout(5*time.Second))
	if err != nil {
		return nil, fmt.Errorf("traces.endpoint: %w", err)
	}
	about := resource.NewSchemaless(semconv.ServiceName("orders"), semconv.ServiceVersion(version),
		semconv.ServiceInstanceID(c.Instance))
	return &traces{sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about))}, nil
}

// tracer is what begins the spans of requests.
func (t *traces) tracer() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// open returns connections whose statements have spans in those of requests. The statements have no values, which the
// driver puts in, below; the texts of errors may have some, and are left out.
func (t *traces) open(c driver.Connector) *sql.DB {
	if t == nil {
		return sql.OpenDB(c)
	}
	return otelsql.OpenDB(c, otelsql.WithTracerProvider(t.provider), otelsql.WithAttributes(semconv.DBSystemNameMySQL),
		otelsql.WithSpanOptions(otelsql.SpanOptions{
			OmitConnResetSession: true, OmitConnectorConnect: true, OmitRows: true, DisableErrSkip: true,
			RecordError: func(error) bool { return false },
			SpanFilter: func(ctx context.Context, _ otelsql.Method, _ string, _ []driver.NamedValue) bool {
				return trace.SpanFromContext(ctx).IsRecording()
			},
		}))
}

// close sends what is left.
func (t *traces) close() error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		return fmt.Errorf("send the last traces: %w", err)
	}
	return nil
}
