package traces

import (
	"context"
	"net/http"
	"testing"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// A request that is not sampled has the id of its trace, for the log and for problems, and nothing else.
func TestARequestThatIsNotSampled(t *testing.T) {
	of := &Traces{sampler: sdk.NeverSample()} // without a tracer
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	r.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	ctx, end := of.Request(r, "/v1/orders")
	end(http.StatusCreated, "")
	for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
		if of.ID(ctx) != id || of.SampledID(ctx) != "" || recording(ctx) || of.traceparent(ctx) != "" {
			t.Errorf("id %q, sampled id %q, recording %v, traceparent %q", of.ID(ctx), of.SampledID(ctx),
				recording(ctx), of.traceparent(ctx))
		}
	}
	if got := of.ID(t.Context()); got != "" {
		t.Errorf("id %q without a request", got)
	}
}

// BenchmarkRequest is what a request costs before anything is sold: 99 of 100 are not sampled.
func BenchmarkRequest(b *testing.B) {
	for name, sampler := range map[string]sdk.Sampler{
		"not sampled": sdk.NeverSample(), "sampled": sdk.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			p := sdk.NewTracerProvider(sdk.WithSampler(sampler))
			of := &Traces{provider: p, tracer: p.Tracer("test"), sampler: sampler}
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/v1/orders", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
			b.ReportAllocs()
			for b.Loop() {
				ctx, end := of.Request(r, "/v1/orders")
				_ = r.WithContext(ctx)
				end(http.StatusCreated, "")
			}
		})
	}
}
