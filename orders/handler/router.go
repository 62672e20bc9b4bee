// Package handler serves api/openapi.yaml. The document validates requests; the table in problem.go answers errors.
package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"example.com/stock/orders/api"
	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

// A Handler implements the operations of the document. Each returns what the document says, or an error.
type Handler struct {
	store  *repo.Store
	limits service.Limits
}

var _ api.StrictServerInterface = (*Handler)(nil)

// Options of the routes.
type Options struct {
	Store    *repo.Store
	Who      Identifier
	Limits   service.Limits
	Instance string                // the name of this instance, in the header X-Instance
	Most     int                   // requests at a time; those beyond it are refused at once
	Metrics  prometheus.Registerer // nil: requests are neither counted nor logged
	Traces   trace.TracerProvider  // nil: there are none
}

// New returns the routes.
func New(o Options) (*gin.Engine, error) {
	check, err := newValidator(o.Who)
	if err != nil {
		return nil, err
	}
	gin.SetMode(gin.ReleaseMode) // it would print its routes
	e := gin.New()
	e.RedirectTrailingSlash = false
	e.HandleMethodNotAllowed = true
	e.NoRoute(func(c *gin.Context) { fail(c, errNoRoute) })
	e.NoMethod(func(c *gin.Context) { fail(c, errNoMethod) })
	e.Use(identifyRequest(o.Instance))
	if o.Traces != nil {
		e.Use(otelgin.Middleware("", otelgin.WithTracerProvider(o.Traces),
			otelgin.WithPropagators(propagation.TraceContext{})))
	}
	if o.Metrics != nil {
		e.Use(observe(check, o.Metrics))
	}
	e.Use(recovered(), atMost(o.Most), check.validate)
	strict := api.NewStrictHandlerWithOptions(&Handler{o.Store, o.Limits}, nil, api.StrictGinServerOptions{
		RequestErrorHandlerFunc:  func(c *gin.Context, err error) { fail(c, invalid(err)) },
		HandlerErrorFunc:         fail,
		ResponseErrorHandlerFunc: fail,
	})
	api.RegisterHandlersWithOptions(e, strict, api.GinServerOptions{
		ErrorHandler: func(c *gin.Context, err error, _ int) { fail(c, invalid(err)) },
	})
	return e, nil
}

// Server returns a server with time limits, so that a slow client keeps nothing for long.
func Server(address string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: address, Handler: h,
		ReadHeaderTimeout: readLimit, ReadTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit,
		MaxHeaderBytes: 2 * maxToken,
	}
}

// newID returns an id that grows with time, so that rows are added at the end of a table.
func newID() string { return uuid.Must(uuid.NewV7()).String() }
