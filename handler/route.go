package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// A route is a row of the table of routes.
type route struct {
	method string // GET means HEAD, too
	path   string
	admin  bool // the request must have an admin token
	handle action
}

// An action replies to a request. The reply to an error is its problem.
type action func(*gin.Context) error

// public returns the routes of the public listener.
func (h *handler) public() []route {
	const get, post, put = http.MethodGet, http.MethodPost, http.MethodPut
	routes := append(h.onBoth(), []route{
		{get, "/v1/strategies", false, plain(h.strategies)},
		{get, "/v1/stock/:sku", false, h.getStock},
		{put, "/v1/stock/:sku", true, h.putStock},
		{get, "/v1/stock/:sku/orders", false, h.getOrders},
		{post, "/v1/stock/:sku/orders/:order_id/settle", false, h.settleOrder},
		{post, "/v1/stock/:sku/deduct", false, h.deductResource},
	}...)
	for _, s := range h.Strategies {
		sell := func(c *gin.Context) error { return h.deduct(c, s.Name) }
		routes = append(routes, route{post, s.Endpoint, false, sell})
	}
	return routes
}

// operators returns the routes of the admin listener.
func (h *handler) operators() []route {
	const get, put, del = http.MethodGet, http.MethodPut, http.MethodDelete
	routes := append(h.onBoth(), []route{
		{get, "/metrics", false, h.metrics},
		{get, "/v1/locks/:strategy/:key", false, plain(h.getLock)},
		{del, "/v1/locks/:strategy/:key", true, plain(h.deleteLock)},
	}...)
	if !h.Lab {
		return routes
	}
	return append(routes, []route{
		{get, "/v1/lab/pauses", true, plain(h.getPauses)},
		{put, "/v1/lab/pauses", true, h.putPauses},
		{del, "/v1/lab/pauses", true, plain(h.deletePauses)},
		{put, "/v1/lab/pauses/:request", true, h.putPause},
		{del, "/v1/lab/pauses/:request", true, plain(h.deletePause)},
		{get, "/v1/lab/steps", true, h.getSteps},
	}...)
}

// onBoth returns the routes of both listeners.
func (h *handler) onBoth() []route {
	const get = http.MethodGet
	return []route{
		{get, "/livez", false, h.livez},
		{get, "/readyz", false, h.readyz},
		{get, "/version", false, plain(h.version)},
		{get, "/openapi.json", false, plain(h.openAPI)},
		{get, "/problems/:name", false, plain(h.explainProblem)},
	}
}

// plain is handle for requests without fields. It refuses those that have some.
func plain(handle action) action {
	return func(c *gin.Context) error {
		if _, err := decode(c); err != nil {
			return err
		}
		return handle(c)
	}
}

// add adds routes to an engine. For HEAD net/http omits the body.
func (h *handler) add(e *gin.Engine, routes []route) {
	for _, r := range routes {
		handle := func(c *gin.Context) {
			if err := h.serve(r, c); err != nil {
				h.fail(c, err)
			}
		}
		e.Handle(r.method, r.path, handle)
		if r.method == http.MethodGet {
			e.HEAD(r.path, handle)
		}
	}
}

func (h *handler) serve(r route, c *gin.Context) error {
	if r.admin {
		if err := h.checkAdmin(c.Request.Header); err != nil {
			return err
		}
	}
	return r.handle(c)
}
