package handler

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler/access"
)

// A Route is a row of the table of routes.
type Route struct {
	Method string // GET means HEAD, too
	Path   string
	Needs  []access.Scope // one of them is enough; none: the route is for everybody
	Handle gin.HandlerFunc
}

func NewRoute(method, path string, needs []access.Scope, handle gin.HandlerFunc) Route {
	return Route{method, path, needs, handle}
}

// Needs returns a list of scopes, one of which opens a route.
func Needs(scopes ...access.Scope) []access.Scope { return scopes }

// add adds routes to an engine. For HEAD net/http omits the body.
func (b *Base) add(e *gin.Engine, routes []Route) {
	for _, r := range routes {
		chain := []gin.HandlerFunc{r.Handle}
		if len(r.Needs) > 0 {
			chain = []gin.HandlerFunc{func(c *gin.Context) { b.admit(c, r.Needs...) }, r.Handle}
		}
		e.Handle(r.Method, r.Path, chain...)
		if r.Method == http.MethodGet {
			e.HEAD(r.Path, chain...)
		}
	}
}

// callerKey is the key of the caller in the gin context.
const callerKey = "caller"

// Caller returns who sends a request. Its route must need a scope.
func Caller(c *gin.Context) access.Caller {
	value, _ := c.Get(callerKey)
	caller, _ := value.(access.Caller)
	return caller
}

// admit reports whether the caller may do what needs one of the scopes. If not, it replies with a problem.
func (b *Base) admit(c *gin.Context, needs ...access.Scope) bool {
	caller, err := b.caller(c.Request.Header, needs[0])
	if err == nil && !caller.May(needs...) {
		err = &scopeError{needs}
	}
	if err != nil {
		b.Fail(c, err)
		return false
	}
	c.Set(callerKey, caller)
	if err := b.Rate.take(c, caller.Subject); err != nil {
		b.Fail(c, err)
		return false
	}
	return true
}

// caller returns who sends a request. Where customers are believed, only a request for operators must prove anything.
func (b *Base) caller(header http.Header, need access.Scope) (access.Caller, error) {
	if b.Door.AsksCustomers() {
		return b.Door.Caller(header)
	}
	if !need.ForOperators() {
		return access.Believed(), nil
	}
	caller, err := b.Door.Caller(header)
	switch {
	case err == nil:
		return caller, nil
	case !b.Door.HasOperators():
		return caller, errNoAdmin
	default:
		return caller, errUnauthorized
	}
}

// Admin reports whether the request has the token of an operator. If not, it replies with a problem.
func (b *Base) Admin(c *gin.Context) bool { return b.admit(c, access.Lab) }

// A scopeError is an errScope with the scopes of which the caller has none.
type scopeError struct{ needs []access.Scope }

func (e *scopeError) Error() string        { return errScope.Error() + ": " + e.words() }
func (e *scopeError) Is(target error) bool { return target == errScope }

// words returns the scopes as in claim scope.
func (e *scopeError) words() string {
	words := make([]string, len(e.needs))
	for i, s := range e.needs {
		words[i] = string(s)
	}
	return strings.Join(words, " ")
}

// operators and customers are the security schemes of the OpenAPI document.
const operators, customers = "admin", "token"

// security returns what the OpenAPI document says of a route's caller. Each element of the list is enough.
func (b *Base) security(r Route) []any {
	list := []any{}
	if b.Door.AsksCustomers() {
		for _, scope := range r.Needs {
			if scope != access.Lab {
				list = append(list, gin.H{customers: []any{string(scope)}})
			}
		}
		if len(r.Needs) > 0 {
			list = append(list, gin.H{operators: []any{}})
		}
	} else if len(r.Needs) > 0 && r.Needs[0].ForOperators() {
		list = append(list, gin.H{operators: []any{}})
	}
	return list
}
