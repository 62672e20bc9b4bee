package traces

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/XSAM/otelsql"
	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"
)

// The spans of clients have no keys, values and error texts: they contain SKUs.

// client begins the span of a call, if ctx is in a sampled one. Then the result must be called with the call's error.
func (t *Traces) client(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, func(error)) {
	if !recording(ctx) {
		return ctx, nil
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(about...))
	return ctx, func(err error) { end(span, err) }
}

func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Lock returns the hook of the strategy's lock: a span for each wait.
func (t *Traces) Lock(strategy string) func(context.Context, string) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	name := "lock " + strategy
	return func(ctx context.Context, key string) (context.Context, func(error)) {
		if !recording(ctx) {
			return ctx, func(error) {}
		}
		ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(t.about(key)...))
		return ctx, func(err error) { end(span, err) }
	}
}

// ZooKeeper returns the hook of the session: a span for each step of an acquisition.
func (t *Traces) ZooKeeper() func(context.Context, string) func(error) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, name string) func(error) {
		_, ended := t.client(ctx, "zookeeper "+name, semconv.DBSystemNameKey.String("zookeeper"))
		if ended == nil {
			return func(error) {}
		}
		return ended
	}
}

// SQL returns what makes a pool of connections with a span for each packet; nil: the pool is as without traces.
func (t *Traces) SQL() func(driver.Connector) *sql.DB {
	if t == nil {
		return nil
	}
	options := otelsql.SpanOptions{
		OmitConnResetSession: true, OmitConnectorConnect: true, OmitRows: true, DisableErrSkip: true,
		RecordError: func(error) bool { return false }, // its text has values
		SpanFilter: func(ctx context.Context, _ otelsql.Method, _ string, _ []driver.NamedValue) bool {
			return recording(ctx)
		},
	}
	return func(c driver.Connector) *sql.DB {
		return otelsql.OpenDB(c, otelsql.WithTracerProvider(t.provider), otelsql.WithSpanOptions(options),
			otelsql.WithAttributes(semconv.DBSystemNameMySQL),
			otelsql.WithSpanNameFormatter(func(_ context.Context, m otelsql.Method, query string) string {
				if query == "" {
					return string(m)
				}
				return verbs(query)
			}))
	}
}

// verbs returns what the statements of a packet do, each verb once.
func verbs(packet string) string {
	var list []string
	for statement := range strings.SplitSeq(packet, ";") {
		verb, _, _ := strings.Cut(strings.TrimSpace(statement), " ")
		if verb != "" && !slices.Contains(list, verb) {
			list = append(list, verb)
		}
	}
	return strings.Join(list, " ")
}

// Redis gives a client a span for each command. redisotel would do it, too: without asking whether anybody records, for
// every pipeline at the price of formatting its commands, and with the text of errors.
func (t *Traces) Redis(c interface{ AddHook(redis.Hook) }) {
	if t != nil {
		c.AddHook(hook{t})
	}
}

type hook struct{ of *Traces }

func (h hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		if !recording(ctx) {
			return next(ctx, c)
		}
		return h.call(ctx, strings.ToUpper(c.Name()), func(ctx context.Context) error { return next(ctx, c) })
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, list []redis.Cmder) error {
		if !recording(ctx) {
			return next(ctx, list)
		}
		return h.call(ctx, "PIPELINE", func(ctx context.Context) error { return next(ctx, list) },
			semconv.DBOperationBatchSize(len(list)))
	}
}

func (h hook) call(
	ctx context.Context, name string, do func(context.Context) error, about ...attribute.KeyValue,
) error {
	ctx, ended := h.of.client(ctx, name, append(about, semconv.DBSystemNameRedis, semconv.DBOperationName(name))...)
	err := do(ctx)
	if errors.Is(err, redis.Nil) {
		ended(nil)
	} else {
		ended(err)
	}
	return err
}
