package traces_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A span as a collector gets it. An id is that of the trace and that of the span.
type span struct {
	id, parent string // parent "": none, or it was never sent
	trace      string
	links      []string
	name       string
	service    string
	attributes map[string]string
	began      uint64
	took       uint64
}

// An inbox is a collector: it keeps the spans that it gets over HTTP.
type inbox struct {
	URL string

	mu    sync.Mutex
	spans []span
	sent  int // requests
}

func newInbox(t testing.TB) *inbox {
	t.Helper()
	in := &inbox{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
			return
		}
		in.mu.Lock()
		defer in.mu.Unlock()
		in.sent++
		for _, of := range request.ResourceSpans {
			service := texts(of.Resource.Attributes)["service.name"]
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					in.spans = append(in.spans, read(s, service))
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	in.URL = server.URL
	return in
}

func read(s *otlp.Span, service string) span {
	id := func(trace, span []byte) string { return hex.EncodeToString(trace) + "/" + hex.EncodeToString(span) }
	out := span{
		id: id(s.TraceId, s.SpanId), trace: hex.EncodeToString(s.TraceId), name: s.Name, service: service,
		attributes: texts(s.Attributes), began: s.StartTimeUnixNano, took: s.EndTimeUnixNano - s.StartTimeUnixNano,
	}
	if len(s.ParentSpanId) > 0 {
		out.parent = id(s.TraceId, s.ParentSpanId)
	}
	for _, link := range s.Links {
		out.links = append(out.links, id(link.TraceId, link.SpanId))
	}
	return out
}

func texts(list []*common.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, pair := range list {
		switch value := pair.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[pair.Key] = value.StringValue
		default:
			all[pair.Key] = pair.Value.String()
		}
	}
	return all
}

func (in *inbox) all() []span {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.spans)
}

func (in *inbox) requests() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.sent
}

// reached returns what one finds from a span: what it caused, what links to it, and what it links to.
func reached(all []span, from span) (found []span) {
	seen := map[string]bool{from.id: true}
	found = []span{from}
	for i := 0; i < len(found); i++ {
		at := found[i]
		for _, s := range all {
			linked := slices.Contains(s.links, at.id) || slices.Contains(at.links, s.id)
			if !seen[s.id] && (linked || s.parent == at.id) {
				seen[s.id] = true
				found = append(found, s)
			}
		}
	}
	return found
}

// named returns the spans with that name.
func named(all []span, name string) []span {
	return slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.name != name })
}
