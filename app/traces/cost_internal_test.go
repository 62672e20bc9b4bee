package traces

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// A request that is not sampled has the id of its trace, for the log and for problems, and nothing else.
func TestARequestThatIsNotSampled(t *testing.T) {
	of := &Traces{env: environment{root: sdk.NeverSample()}} // without a tracer
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/deduct_stock_zk", nil)
	if err != nil {
		t.Fatal(err)
	}
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	r.Header.Set("Traceparent", "00-"+id+"-00f067aa0ba902b7-01")
	ctx, end := of.Request(r, "/deduct_stock_zk")
	end(http.StatusOK, "")
	for _, ctx := range []context.Context{ctx, context.WithoutCancel(ctx)} {
		if of.ID(ctx) != id || of.SampledID(ctx) != "" || recording(ctx) {
			t.Errorf("id %q, sampled id %q, recording %v", of.ID(ctx), of.SampledID(ctx), recording(ctx))
		}
	}
	if got := of.ID(t.Context()); got != "" {
		t.Errorf("id %q without a request", got)
	}
}

// What drops a request decides as the SDK would.
func TestDroppedAsByTheSDK(t *testing.T) {
	t.Parallel()
	const good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	headers := []string{
		"", "00", good, good[:54] + "0", good[:54] + "2", good[:53] + "ff", good + "-more", "01" + good[2:],
		"01" + good[2:] + "-more", "ff" + good[2:], strings.ToUpper(good), " " + good, good[:54],
		"00-" + strings.Repeat("0", 32) + good[35:], good[:36] + strings.Repeat("0", 16) + good[52:],
	}
	for i := range good { // one character that is wrong, or a digit of the ids that is another
		for _, c := range "-g0f" {
			headers = append(headers, good[:i]+string(c)+good[i+1:])
		}
	}
	for _, name := range []string{
		"", "always_on", "always_off", "traceidratio", "parentbased_always_off", "parentbased_traceidratio",
	} {
		e, err := readEnv(func(variable string) string {
			return map[string]string{
				"OTEL_TRACES_EXPORTER": "otlp", "OTEL_TRACES_SAMPLER": name, "OTEL_TRACES_SAMPLER_ARG": "0.5",
			}[variable]
		})
		if err != nil {
			t.Fatal(err)
		}
		of, dropped := &Traces{env: e}, 0
		for _, header := range headers {
			ctx := of.context.Extract(t.Context(), propagation.MapCarrier{"traceparent": header})
			remote := trace.SpanContextFromContext(ctx)
			p := sdk.SamplingParameters{ParentContext: ctx, TraceID: remote.TraceID()}
			sampled := e.sampler().ShouldSample(p).Decision != sdk.Drop
			switch id := of.dropped(header); {
			case id != "" && (!remote.IsValid() || sampled || id != remote.TraceID().String()):
				t.Errorf("sampler %q: %q is dropped as %s", name, header, id)
			case id == "" && remote.IsValid() && !sampled && len(header) == len(good) && header[:3] == "00-" &&
				header[53] == '0' && header[54] <= '1':
				t.Errorf("sampler %q: %q is not dropped", name, header)
			case id != "":
				dropped++
			}
		}
		if (name == "always_on") != (dropped == 0) {
			t.Errorf("sampler %q: %d of %d are dropped", name, dropped, len(headers))
		}
	}
}

// BenchmarkRequest is what a request costs before anything is sold: 99 of 100 are not sampled.
func BenchmarkRequest(b *testing.B) {
	for name, sampler := range map[string]sdk.Sampler{
		"not sampled": sdk.NeverSample(), "sampled": sdk.AlwaysSample(),
	} {
		b.Run(name, func(b *testing.B) {
			p := sdk.NewTracerProvider(sdk.WithSampler(sampler))
			of := &Traces{provider: p, tracer: p.Tracer("test"), env: environment{root: sampler}}
			r, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "/deduct_stock_zk", nil)
			if err != nil {
				b.Fatal(err)
			}
			r.Header.Set("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
			b.ReportAllocs()
			for b.Loop() {
				ctx, end := of.Request(r, "/deduct_stock_zk")
				_ = r.WithContext(ctx)
				end(http.StatusOK, "")
			}
		})
	}
}
