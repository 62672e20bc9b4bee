package deploy

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A good traceparent passes, and any other is replaced by one of nginx's own id, on the way through one server of
// nginx.conf and through both. A client's X-Request-Id, which may have the form of a trace id, does not choose it.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	const good = "00-" + trace + "-00f067aa0ba902b7-00"
	var parent, state []string
	in := newInstance(t, "one", func(_ http.ResponseWriter, r *http.Request) {
		parent, state = r.Header.Values("traceparent"), r.Header.Values("tracestate")
	})
	g := newGateway(t, []string{in.addr})
	own := regexp.MustCompile(`^00-([0-9a-f]{16})[0-9a-f]{16}-([0-9a-f]{16})-01$`)
	for name, sent := range map[string]string{
		"none": "", "no version": trace, "upper case": strings.ToUpper(good), "short": good[:54], "long": good + "0",
		"other version": "01" + good[2:], "no trace": "00-" + strings.Repeat("0", 32) + good[35:],
		"no parent": good[:36] + strings.Repeat("0", 16) + "-01", "a comma": good + ", " + good,
		"a quote": `"` + good[1:],
	} {
		for _, method := range []string{"POST", "PUT"} { // PUT passes through nginx twice
			g.do(method, "/v1/stock/a", "", "traceparent", sent, "X-Request-Id", trace, "tracestate", "a=b")
			if len(parent) != 1 || len(state) != 0 {
				t.Fatalf("%s: traceparent %q, tracestate %q", name, parent, state)
			}
			made := own.FindStringSubmatch(parent[0])
			if made == nil || made[1] != made[2] || strings.Contains(parent[0], trace) {
				t.Errorf("%s: %s became %s", name, sent, parent[0])
			}
		}
	}
	for _, method := range []string{"POST", "PUT"} {
		g.do(method, "/v1/stock/a", "", "traceparent", good, "tracestate", "a=b")
		if len(parent) != 1 || parent[0] != good || len(state) != 1 || state[0] != "a=b" {
			t.Errorf("%s: %s became %q, tracestate %q", method, good, parent, state)
		}
	}
	eventually(t, "the log has the trace", func() bool {
		text, _ := os.ReadFile(filepath.Join(g.dir, "access.log"))
		return strings.Contains(string(text), `"trace_id":"`+trace+`"`)
	})
}
