package traces

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/service"
	"example.com/stock/service/order"
)

// The phases of a sale.
const (
	waits  = "wait" // for the lock, or for the batch
	reads  = "read"
	thinks = "think"
	writes = "write"
)

// phases makes a span of each phase, when the phase has ended. The calls of a server are beside the phase in which they
// fall, not below it: a phase is known by its steps, and calls get their ctx before.
type phases struct {
	tracer trace.Tracer
	ctx    context.Context // of the sale

	mu       sync.Mutex
	name     string // of the present phase; "": none
	began    time.Time
	acquired time.Time // of a sale of a strategy, which tells its steps
	step     bool      // of the ledger, which tells none: its batch ends the wait
}

// phasesKey is the context key of the phases.
type phasesKey struct{}

// next ends the present phase and begins another; "": none.
func (p *phases) next(name string, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name != "" {
		p.span(p.name, p.began, at)
	}
	p.name, p.began = name, at
}

func (p *phases) span(name string, from, to time.Time) {
	_, span := p.tracer.Start(p.ctx, name, trace.WithTimestamp(from))
	span.End(trace.WithTimestamp(to))
}

// start begins the span of a sale and its phases. ctx must be recording.
func (t *Traces) start(
	ctx context.Context, name string, about ...attribute.KeyValue,
) (context.Context, trace.Span, *phases) {
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(about...))
	p := &phases{tracer: t.tracer, ctx: ctx}
	return context.WithValue(ctx, phasesKey{}, p), span, p
}

// Ledger returns l with a span for each step and for its phases, and the traceparent of the step in its movements. A
// step that no request makes, such as the end of a reservation, has neither.
func (t *Traces) Ledger(l order.Ledger) order.Ledger {
	if t == nil {
		return l
	}
	return ledger{l, t}
}

type ledger struct {
	order.Ledger
	of *Traces
}

func (l ledger) Step(
	ctx context.Context, about order.About, decide func(order.State) (order.Changes, error),
) (reply []byte, replayed bool, err error) {
	if !recording(ctx) {
		return l.Ledger.Step(ctx, about, decide)
	}
	skus := make([]string, len(about.SKUs))
	for i, sku := range about.SKUs {
		skus[i] = string(sku)
	}
	ctx, span, p := l.of.start(ctx, "step", l.of.about(about.Customer, skus...)...)
	defer span.End()
	// The queue of the batches has the wait alone, which began before the step.
	wait := context.WithValue(trace.ContextWithSpan(service.WaitOf(ctx), span), phasesKey{}, p)
	parent := l.of.traceparent(ctx)
	p.step = true
	p.next(waits, time.Now())
	traced := func(s order.State) (order.Changes, error) {
		p.alone()
		p.next(thinks, time.Now())
		changes, err := decide(s)
		for i := range changes.Movements {
			changes.Movements[i].Traceparent = parent
		}
		p.next(writes, time.Now())
		return changes, err
	}
	reply, replayed, err = l.Ledger.Step(service.WithWait(ctx, wait), about, traced)
	p.next("", time.Now())
	return reply, replayed, err
}

// alone makes a wait that no batch has ended the read of a step that is made alone.
func (p *phases) alone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.name == waits {
		p.name = reads
	}
}

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
		if p, ok := member.Value(phasesKey{}).(*phases); ok {
			p.cut(time.Now())
		}
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

// cut ends the wait of a step for its batch.
func (p *phases) cut(at time.Time) {
	if p.step {
		p.next(reads, at)
	}
}
