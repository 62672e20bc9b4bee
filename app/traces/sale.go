package traces

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/service"
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
	acquired time.Time // of the lock
}

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

// Tell implements service.Watcher.
func (p *phases) Tell(s service.Step) {
	switch s.Kind {
	case service.Waits:
		p.next(waits, s.At)
	case service.Acquired:
		p.next("", s.At)
		p.acquired = s.At // only the goroutine that sells reads it
	case service.ReadIt: // a sale that the store reads and writes in one step has none
		p.span(reads, p.acquired, s.At)
	case service.Thinks:
		p.next(thinks, s.At)
	case service.Writes:
		p.next(writes, s.At)
	case service.Wrote, service.Released:
		p.next("", s.At)
	}
}

// A Seller sells by a strategy.
type Seller interface {
	Deduct(context.Context, service.Request) (service.Receipt, error)
}

// Seller returns s with a span for each sale and for its phases.
func (t *Traces) Seller(s Seller) Seller {
	if t == nil {
		return s
	}
	return seller{s, t}
}

type seller struct {
	Seller
	of *Traces
}

func (s seller) Deduct(ctx context.Context, r service.Request) (service.Receipt, error) {
	if !recording(ctx) {
		return s.Seller.Deduct(ctx, r)
	}
	about := append(s.of.about(string(r.SKU)), attribute.String("stock.strategy", r.Strategy))
	ctx, span := s.of.tracer.Start(ctx, "sale", trace.WithAttributes(about...))
	defer span.End()
	p := &phases{tracer: s.of.tracer, ctx: ctx}
	r.Watch = p
	receipt, err := s.Seller.Deduct(ctx, r)
	p.next("", time.Now())
	return receipt, err
}
