// Package handler is the HTTP side of the service: middleware, decoding, problems, the probes and the OpenAPI document.
package handler

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
)

// A Part adds the routes of one service and describes them in the OpenAPI document.
type Part interface {
	Public(b *Base) []Route // for customers and load balancers
	Admin(b *Base) []Route  // for operators
	Document(document map[string]any)
}

// A Backend is a server that the service depends on.
type Backend interface {
	Name() string
	Err() error             // nil: up; else a lock.DownError
	Warning() error         // limits the use of a server that is up; nil: no limit
	Latency() time.Duration // of the last check
}

// A Meter counts requests.
type Meter interface {
	Request(ctx context.Context, route, method string, status int, took time.Duration)
	Problem(route, method, problem string) // problem: the type in the reply
	Ready(bool)                            // called before every reply with metrics
}

// A Tracer follows requests to what they cause.
type Tracer interface {
	// Request returns the ctx of a request, and a func to call at its end. problem is the type in the reply, or "".
	Request(r *http.Request, route string) (ctx context.Context, end func(status int, problem string))
	// ID returns the id of the trace of ctx, or "".
	ID(ctx context.Context) string
}

// Config holds what New and NewAdmin need.
type Config struct {
	Parts    []Part
	Backends []Backend
	Instance string
	Admins   func() Tokens // the admin tokens, as they are now
	Version  Version
	Meter    Meter
	Tracer   Tracer // nil: requests are not traced
	Metrics  http.Handler
	Log      *slog.Logger
	Draining func() bool // readiness fails while it is true
	// Sells returns what can be sold from each store now (nil: not reported), and why the instance is not ready, or
	// "".
	Sells func() (stores map[string]StoreReply, why string)
}

// A Base is the part of a handler that both services share. Its methods handle requests.
type Base struct {
	Config
	log      *slog.Logger
	problems []row
	instance []string       // name of the instance, a header of every reply
	document map[string]any // see describe
}

// MaxBody is the largest body that is read, in bytes.
const MaxBody = 64 << 10

// New makes the handler of the public listener, for customers and load balancers. The routes for operators are those
// of NewAdmin.
func New(c Config) http.Handler {
	b := newBase(c)
	public, operators := b.Routes()
	b.document = b.describe(public, operators)
	return b.engine(public)
}

// NewAdmin makes the handler of the admin listener: metrics, and the parts' routes for operators. It sells nothing.
func NewAdmin(c Config) http.Handler {
	b := newBase(c)
	public, operators := b.Routes()
	b.document = b.describe(public, operators)
	return b.engine(operators)
}

func newBase(c Config) *Base {
	return &Base{Config: c, log: c.Log, problems: table(), instance: []string{c.Instance}}
}

// Routes returns the table of routes of both listeners.
func (b *Base) Routes() (public, operators []Route) {
	public = []Route{
		{http.MethodGet, "/livez", false, b.livez},
		{http.MethodGet, "/readyz", false, b.readyz},
		{http.MethodGet, "/version", false, b.version},
		{http.MethodGet, "/openapi.json", false, b.openAPI},
		{http.MethodGet, "/problems/:name", false, b.explainProblem},
	}
	operators = append(slices.Clone(public), Route{http.MethodGet, "/metrics", false, b.metrics})
	for _, p := range b.Parts {
		public = append(public, p.Public(b)...)
		operators = append(operators, p.Admin(b)...)
	}
	return public, operators
}

// engine makes the handler of a listener.
func (b *Base) engine(routes []Route) http.Handler {
	gin.SetMode(gin.ReleaseMode) // gin's own logging is off; ours is structured
	e := gin.New()
	e.HandleMethodNotAllowed = true
	// A SKU with an encoded slash is an invalid SKU, not an unknown path.
	e.UseRawPath, e.UnescapePathValues = true, true
	e.RedirectTrailingSlash = false // many clients follow a redirect of a POST with a GET
	_ = e.SetTrustedProxies(nil)
	e.Use(b.identify)
	if b.Tracer != nil {
		e.Use(b.trace)
	}
	e.Use(b.measure, b.recoverPanic)
	e.NoRoute(func(c *gin.Context) { b.Fail(c, errNotFound) })
	e.NoMethod(func(c *gin.Context) { b.Fail(c, &methodError{c.Writer.Header().Get("Allow")}) })
	b.add(e, routes)
	return limits{connectionCloser{e, b.Draining}}
}
