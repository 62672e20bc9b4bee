package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/service/relay"
)

// Deliver returns the hook of the relay: a span for each attempt to deliver an event, in a trace of its own, because it
// may begin long after the sale and be repeated. It links to the sale. sink is where the relay delivers.
func (t *Traces) Deliver(sink string) func(context.Context, relay.Event) (context.Context, func(error)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, e relay.Event) (context.Context, func(error)) {
		options := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindProducer)}
		if origin := t.origin(e.Traceparent); origin.IsValid() {
			options = append(options, trace.WithLinks(trace.Link{SpanContext: origin}))
		}
		ctx, span := t.tracer.Start(ctx, "send "+e.Type, options...)
		if span.IsRecording() {
			span.SetAttributes(semconv.MessagingSystemKey.String(sink), semconv.MessagingOperationName("send"),
				semconv.MessagingOperationTypeSend, attribute.String("cloudevents.event_type", e.Type))
			if t.SKU { // the id begins with the SKU
				span.SetAttributes(semconv.MessagingMessageID(e.ID))
			}
		}
		return ctx, func(err error) { end(span, err) }
	}
}

// Traceparent returns the hook of the webhook: the header with which a receiver finds the delivery.
func (t *Traces) Traceparent() func(context.Context) string {
	if t == nil {
		return nil
	}
	return t.traceparent
}
