// Package handler is the HTTP side of both services: middleware, decoding, problems, the probes and the OpenAPI
// document.
//
// The routes of a service are a [Part]: handler/demo has the endpoints of the strategies, handler/orders those of the
// shop. Only these packages use gin.
package handler

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
)

// A Part adds the routes of one service and describes them in the OpenAPI document.
type Part interface {
	Public(b *Base, e *gin.Engine) // for customers and load balancers
	Admin(b *Base, e *gin.Engine)  // for operators
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
	Request(route, method string, status int, took time.Duration)
}

// Config holds what New and NewAdmin need.
type Config struct {
	Parts      []Part
	Backends   []Backend
	Instance   string
	AdminToken string // empty: no request is the admin's
	Version    Version
	Meter      Meter
	Metrics    http.Handler
	Log        *slog.Logger
	Draining   func() bool // readiness fails while it is true
	// Sells returns what can be sold from each store now (nil: not reported), and the reason why the instance is not
	// ready, or "".
	Sells   func() (stores map[string]StoreReply, why string)
	Crowded Crowded
}

// Crowded has the statuses of two refusals under load: Contended if another request got the lock or wrote first,
// TooMany if the queue is full. 0 means 503. The shop sets both, because a load balancer must not take such a refusal
// for an outage.
type Crowded struct{ Contended, TooMany int }

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
	b, e := public(c)
	b.document = b.describe(e.Routes())
	return limits{connectionCloser{e, b.Draining}}
}

// NewAdmin makes the handler of the admin listener: the metrics and the parts' routes for operators. It has no routes
// for sales. Changes need the admin token, as on the public listener; reading needs none.
func NewAdmin(c Config) http.Handler {
	b, e := newEngine(c)
	for _, p := range c.Parts {
		p.Admin(b, e)
	}
	Get(e, "/metrics", gin.WrapH(c.Metrics))
	_, served := public(c)
	b.document = b.describe(served.Routes())
	return limits{connectionCloser{e, b.Draining}}
}

func public(c Config) (*Base, *gin.Engine) {
	b, e := newEngine(c)
	for _, p := range c.Parts {
		p.Public(b, e)
	}
	return b, e
}

// newEngine adds the routes of both listeners: the probes, the version, the OpenAPI document and the types of problems.
func newEngine(c Config) (*Base, *gin.Engine) {
	gin.SetMode(gin.ReleaseMode) // gin's own logging is off; ours is structured
	b := &Base{Config: c, log: c.Log, problems: table(c.Crowded), instance: []string{c.Instance}}
	e := gin.New()
	e.HandleMethodNotAllowed = true
	// A SKU with an encoded slash is an invalid SKU, not an unknown path.
	e.UseRawPath, e.UnescapePathValues = true, true
	e.RedirectTrailingSlash = false // many clients follow a redirect of a POST with a GET
	_ = e.SetTrustedProxies(nil)
	e.Use(b.identify, b.measure, b.recoverPanic)
	e.NoRoute(func(c *gin.Context) { b.Fail(c, errNotFound) })
	e.NoMethod(func(c *gin.Context) { b.Fail(c, &methodError{c.Writer.Header().Get("Allow")}) })
	Get(e, "/livez", b.livez)
	Get(e, "/readyz", b.readyz)
	Get(e, "/version", b.version)
	Get(e, "/openapi.json", b.openAPI)
	Get(e, "/problems/:name", b.explainProblem)
	return b, e
}

// Get adds a route for GET and HEAD. For HEAD net/http omits the body.
func Get(e *gin.Engine, path string, answer gin.HandlerFunc) {
	e.GET(path, answer)
	e.HEAD(path, answer)
}
