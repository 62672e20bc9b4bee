package stack

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
)

// turns sends each request to the next instance, and on to the one after that while none can be connected to.
type turns struct {
	transport *http.Transport
	upstreams []string
	count     atomic.Uint64
}

func (t *turns) RoundTrip(req *http.Request) (*http.Response, error) {
	first := t.count.Add(1) - 1
	var failed error
	for i := range uint64(len(t.upstreams)) {
		try := req.Clone(req.Context())
		try.URL.Host = t.upstreams[(first+i)%uint64(len(t.upstreams))]
		try.Body, _ = req.GetBody() // see named: it is there, and never fails
		if req.ContentLength == 0 {
			try.Body = http.NoBody // of any other the transport does not know that it is empty, and sends it in chunks
		}
		try.GetBody = nil
		hideKey(try.Header)
		res, err := t.transport.RoundTrip(try)
		if err == nil {
			return res, nil
		}
		failed = errors.Join(failed, err)
		if !unsent(err) {
			return nil, failed
		}
	}
	return nil, &unreachableError{failed}
}

// hideKey keeps the transport from repeating a POST of its own accord: it does so, after the instance may have seen it, if the
// request has an Idempotency-Key, which it finds under the canonical name only. Instances read header names in any case.
func hideKey(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// An unreachableError says that no instance got a byte of the request.
type unreachableError struct{ cause error }

func (e *unreachableError) Error() string { return fmt.Sprintf("no instance reached: %v", e.cause) }
func (e *unreachableError) Unwrap() error { return e.cause }
