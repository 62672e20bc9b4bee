package traces

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"example.com/stock/service"
)

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
	about := append(s.of.about("", string(r.SKU)), attribute.String("stock.strategy", r.Strategy))
	ctx, span, p := s.of.start(ctx, "sale", about...)
	defer span.End()
	r.Watch = p
	receipt, err := s.Seller.Deduct(ctx, r)
	p.next("", time.Now())
	return receipt, err
}
