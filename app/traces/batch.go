package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Batch returns the hook of batches. A batch has one span. Its parent is the first sampled member, so that a sale that
// is alone is one trace, and it has a link to each sampled member, and each of those a link to the batch. A batch
// without a sampled member has no span.
func (t *Traces) Batch() func(context.Context, []context.Context) (context.Context, func()) {
	if t == nil {
		return nil
	}
	return t.batch
}

func (t *Traces) batch(ctx context.Context, members []context.Context) (context.Context, func()) {
	var links []trace.Link
	var spans []trace.Span
	for _, member := range members {
		if !recording(member) {
			continue
		}
		span := trace.SpanFromContext(member)
		links = append(links, trace.Link{SpanContext: span.SpanContext()})
		spans = append(spans, span)
	}
	if len(spans) == 0 {
		return ctx, func() {}
	}
	ctx, span := t.tracer.Start(trace.ContextWithSpan(ctx, spans[0]), "batch", trace.WithLinks(links...),
		trace.WithAttributes(attribute.Int("stock.batch.size", len(members))))
	for _, member := range spans {
		member.AddLink(trace.Link{SpanContext: span.SpanContext()})
	}
	return ctx, func() { span.End() }
}
