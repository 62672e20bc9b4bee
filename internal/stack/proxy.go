package stack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"example.com/stock/lock/locktest/server"
)

// Limits, as in the shipped nginx.conf.
const (
	proxyBody    = 80 << 10
	proxyConnect = time.Second
	proxyReply   = 75 * time.Second
)

// goProxy prepares the stand-in for nginx. It keeps the rules that matter to a sale: requests go to the instances in
// turn, and a request goes to the next instance only if it could not be sent, never if an instance may have received
// it. (nginx then forwards a GET all the same; the stand-in may ask the same instance again if a kept connection is
// closed.) It hides the same paths as nginx.
func goProxy(why string, port int, upstreams []string) *server.Server {
	return &server.Server{
		URL: "http://" + server.Local(port), Tier: server.Front,
		StandIn: why + "; a proxy inside this process stands in",
		Launch:  func() (server.Run, error) { return startProxy(server.Local(port), upstreams) },
		Ready: func(ctx context.Context, _ int) error {
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", server.Local(port))
			if err == nil {
				conn.Close()
			}
			return err
		},
	}
}

// A proxy is one run of the stand-in.
type proxy struct {
	server    *http.Server
	transport *http.Transport
	exit      chan struct{}

	mu      sync.Mutex
	closed  bool
	serving sync.WaitGroup
}

func startProxy(addr string, upstreams []string) (server.Run, error) {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	p := &proxy{exit: make(chan struct{}), transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: proxyConnect}).DialContext,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       500 * time.Millisecond, // the instances must not close first: see nginx.conf
		ResponseHeaderTimeout: proxyReply,
	}}
	silent := log.New(io.Discard, "", 0) // every failure is in a reply, which the client records
	reverse := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "instances"
			r.Out.Header["X-Forwarded-For"] = r.In.Header["X-Forwarded-For"]
			r.SetXForwarded()
		},
		Transport:    &roundRobin{transport: p.transport, upstreams: upstreams},
		ErrorHandler: badGateway,
		ModifyResponse: func(res *http.Response) error {
			res.Header.Set("X-Request-Id", res.Request.Header.Get("X-Request-Id"))
			return nil
		},
		ErrorLog: silent,
	}
	handler := p.count(named(public(reverse)))
	p.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ErrorLog: silent}
	go func() {
		defer close(p.exit)
		_ = p.server.Serve(listener)
		p.serving.Wait() // their connections go back to the pool only when they end
		p.transport.CloseIdleConnections()
	}()
	return p, nil
}

func (p *proxy) Pid() int                { return 0 }
func (p *proxy) Exited() <-chan struct{} { return p.exit }
func (p *proxy) Outcome() string         { return "closed" }

func (p *proxy) Signal(sig syscall.Signal) error {
	switch sig {
	case syscall.SIGTERM, syscall.SIGKILL:
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		return p.server.Close()
	case syscall.SIGCONT:
		return nil
	default:
		return errors.New("the proxy inside this process cannot be frozen: install nginx")
	}
}

// count counts the requests that are being served, and drops those that come after the close.
func (p *proxy) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			panic(http.ErrAbortHandler) // net/http's way to drop a connection without a reply
		}
		p.serving.Add(1)
		p.mu.Unlock()
		defer p.serving.Done()
		next.ServeHTTP(w, r)
	})
}

// dotted matches paths with the elements "." or "..", which not all servers resolve.
var dotted = regexp.MustCompile(`(?i)(/|%2f)(\.|%2e){1,2}(/|%2f|$)`)

// forOperators matches the paths that only the instances themselves answer.
var forOperators = regexp.MustCompile(`(?i)^/+(metrics|v1/+locks|v1/+lab)(/|$)`)

// public hides what nginx.conf hides.
func public(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if dotted.MatchString(r.URL.EscapedPath()) || forOperators.MatchString(r.URL.Path) {
			problem(w, r, "not_found", http.StatusNotFound, "the gateway refused the request: nothing was done", false)
			return
		}
		next.ServeHTTP(w, r)
	})
}

var goodID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// named gives a request an id if it has no valid one, and reads its body, so that it can be sent more than once.
func named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !goodID.MatchString(r.Header.Get("X-Request-Id")) {
			r.Header.Set("X-Request-Id", uuid.NewString())
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, proxyBody))
		if err != nil {
			problem(w, r, "too_large", http.StatusRequestEntityTooLarge, "a body may have 65536 bytes", false)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		next.ServeHTTP(w, r)
	})
}

// roundRobin sends each request to the next instance, and tries the one after that if it cannot connect.
type roundRobin struct {
	transport *http.Transport
	upstreams []string
	count     atomic.Uint64
}

func (t *roundRobin) RoundTrip(req *http.Request) (res *http.Response, err error) {
	first := t.count.Add(1) - 1
	for i := range uint64(len(t.upstreams)) {
		try := req.Clone(req.Context())
		try.URL.Host = t.upstreams[(first+i)%uint64(len(t.upstreams))]
		try.Body, _ = req.GetBody() // named has set it, and it never fails
		if req.ContentLength == 0 {
			try.Body = http.NoBody // the transport would send another empty body in chunks
		}
		try.GetBody = nil
		hideKey(try.Header)
		if res, err = t.transport.RoundTrip(try); !unsent(err) {
			break
		}
	}
	return res, err
}

// hideKey keeps the transport from retrying a POST. The transport retries a request with an Idempotency-Key even if the
// instance may have received it, but recognises the header only by its canonical name. Instances accept any case.
func hideKey(h http.Header) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if values, ok := h[name]; ok {
			delete(h, name)
			h[strings.ToLower(name)] = values
		}
	}
}

// unsent reports whether no part of a request was sent to an instance.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// badGateway replies for an instance that did not, with the texts of the shipped nginx.conf.
func badGateway(w http.ResponseWriter, r *http.Request, err error) {
	var slow net.Error
	switch {
	case unsent(err): // to none of them: the last one was tried
		w.Header().Set("Retry-After", "1")
		problem(w, r, "bad_gateway", http.StatusBadGateway, nothingDone, false)
	case errors.As(err, &slow) && slow.Timeout():
		problem(w, r, "gateway_timeout", http.StatusGatewayTimeout, unknownOutcome, true)
	default:
		problem(w, r, "bad_gateway", http.StatusBadGateway, unknownOutcome, true)
	}
}

const (
	nothingDone    = "no instance could be reached: nothing was done, the request can be sent again"
	unknownOutcome = "an instance got the request and did not answer: whether it was carried out is unknown; " +
		"look for the request id among the orders before you send it again"
)

func problem(w http.ResponseWriter, r *http.Request, name string, status int, detail string, sent bool) {
	id := r.Header.Get("X-Request-Id")
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Request-Id", id)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"type": "/problems/" + name, "title": http.StatusText(status), "status": status, "detail": detail,
		"instance": r.URL.EscapedPath(), "request_id": id, "sent": sent,
	})
}
