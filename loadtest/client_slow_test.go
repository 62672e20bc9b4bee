package loadtest

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The client gives up a target that accepts connections and then says nothing, or stops in the middle.
func TestClientGivesUpOnASilentTarget(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	halfway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"strategies":[`))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer halfway.Close()
	for name, url := range map[string]string{"silent": "http://" + silent.Addr().String(), "halfway": halfway.URL} {
		t.Run(name, func(t *testing.T) {
			c, err := NewClient(url, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			c.limit = 500 * time.Millisecond
			_, err = c.Strategies(t.Context())
			var target *TargetError
			if want := "did not answer GET /v1/strategies in time: no reply within 500ms"; !errors.As(err, &target) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v, want a TargetError with %q", err, want)
			}
		})
	}
}
