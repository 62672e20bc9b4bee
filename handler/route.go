package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"
)

// A Route is a row of the table of routes.
type Route struct {
	Method string // GET means HEAD, too
	Path   string
	Admin  bool // the request must have an admin token
	Handle gin.HandlerFunc
}

// add adds routes to an engine. For HEAD net/http omits the body.
func (b *Base) add(e *gin.Engine, routes []Route) {
	for _, r := range routes {
		chain := []gin.HandlerFunc{r.Handle}
		if r.Admin {
			chain = []gin.HandlerFunc{func(c *gin.Context) { b.Admin(c) }, r.Handle}
		}
		e.Handle(r.Method, r.Path, chain...)
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, chain...)
		}
	}
}
