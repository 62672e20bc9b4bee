package handler

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"example.com/stock/orders/api"
	"example.com/stock/orders/service"
)

var (
	errNoRoute    = errors.New("no such path")
	errNoMethod   = errors.New("no such method for this path")
	errPanic      = errors.New("a bug")
	errInvalid    = errors.New("the request breaks the document")
	errTooLarge   = errors.New("too large")
	errMediaType  = errors.New("not JSON in UTF-8")
	errOverloaded = errors.New("as many requests as this instance serves at a time are under way")
)

// problems is the only place that gives an error its status. The first row that matches counts.
var problems = []struct {
	err    error
	status int
	kind   string
	title  string
	retry  int // seconds; 0: to try again does not help
}{
	{errNoRoute, 404, "not_found", "There is nothing here.", 0},
	{errNoMethod, 405, "method_not_allowed", "This path has other methods.", 0},
	{ErrToken, 401, "unauthorized", "Send a valid token: Authorization: Bearer ...", 0},
	{ErrKeys, 503, "issuer_down", "The keys of the issuer cannot be read, so no token can be checked.", 5},
	{errScope, 403, "scope_missing", "The token lacks a scope.", 0},
	{errTooLarge, 413, "too_large", "The request is too large.", 0},
	{errMediaType, 415, "unsupported_media_type", "The body must be application/json, in UTF-8.", 0},
	{errInvalid, 400, "invalid", "The request is not as the document says.", 0},
	{errOverloaded, 503, "overloaded", "Too many requests are under way. Nothing was written.", 1},
	{service.ErrCursor, 400, "invalid_cursor", "The cursor is not of this list.", 0},
	{service.ErrUnknownSKU, 404, "unknown_sku", "There is no such SKU.", 0},
	{service.ErrNotFound, 404, "not_found", "There is no such order or reservation.", 0},
	{service.ErrKeyReused, 422, "idempotency_key_reused", "The key was used for another request.", 0},
	{service.ErrPrecondition, 412, "precondition_failed", "The stock has moved since it was read.", 0},
	{service.ErrBelowZero, 409, "below_zero", "Fewer units are available than are to be taken off.", 0},
	{service.ErrTooMany, 409, "too_much_stock", "At most 1,000,000,000 units can be available.", 0},
	{service.ErrExpired, 409, "reservation_expired", "The reservation has expired, and its units are sold.", 0},
	{service.ErrBusy, 503, "busy", "Too many requests want the same units. Nothing was written.", 1},
	{service.ErrDown, 503, "database_down", "The database does not answer. Nothing was written.", 1},
	{service.ErrUnknown, 503, "outcome_unknown", "It may have been written. Send it again with the same key.", 1},
	{service.ErrUnbalanced, 500, "unbalanced", "The books do not balance. Nothing was written.", 0},
}

const problemsAt = "/problems/"

// problemOf returns the problem of an error, and after how many seconds to try again. Only a problem of the client says
// more than the table.
func problemOf(err error) (p api.Problem, retry int) {
	p = api.Problem{Type: "internal", Title: "This should not happen.", Status: 500}
	if short, ok := errors.AsType[*service.ShortError](err); ok {
		p = api.Problem{
			Type:   "sold_out",
			Title:  "Not enough is in stock.",
			Status: 409,
			Lines:  each(short.Lines, shortageOf),
		}
	}
	if limit, ok := errors.AsType[*service.LimitError](err); ok {
		p = api.Problem{Type: "limit_reached", Title: "A customer may not have so many units of it.", Status: 409}
		p.Sku, p.Limit, p.Remaining = limit.SKU, limit.Limit, &limit.Remaining
	}
	if many, ok := errors.AsType[*service.TooManyError](err); ok {
		p = api.Problem{Type: "too_many_reservations", Title: "A customer may not reserve so much.", Status: 409}
		p.Of, p.Limit, p.Remaining = api.ProblemOf(many.Of), many.Limit, &many.Remaining
	}
	if state, ok := errors.AsType[*service.StateError](err); ok {
		p = api.Problem{Type: "wrong_state", Title: "It has ended in another way.", Status: 409, State: state.State}
	}
	for _, row := range problems {
		if errors.Is(err, row.err) {
			p.Type, p.Title, p.Status, retry = row.kind, row.title, row.status, row.retry
			break
		}
	}
	p.Type = problemsAt + p.Type
	if p.Status < 500 {
		p.Errors = fieldErrors(err)
	}
	if scope, ok := errors.AsType[*scopeError](err); ok {
		p.Scopes = scope.scopes
	}
	return p, retry
}

func shortageOf(l service.Shortage) api.Shortage {
	return api.Shortage{Sku: l.SKU, Requested: l.Requested, Available: l.Available}
}

// fail answers with the problem of err.
func fail(c *gin.Context, err error) {
	p, retry := problemOf(err)
	c.Set(problemKey, strings.TrimPrefix(p.Type, problemsAt))
	c.Set(reasonKey, err)
	if retry > 0 {
		c.Header("Retry-After", strconv.Itoa(retry))
	}
	if p.Status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", `Bearer realm="orders"`)
	}
	p.RequestId = c.Writer.Header().Get(requestID)
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(p.Status, p)
}

// invalid says what kind of error of validation err is.
func invalid(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%w: %w", errTooLarge, err)
	}
	if errors.Is(err, errMediaType) {
		return err
	}
	return fmt.Errorf("%w: %w", errInvalid, err)
}

// A fieldError is a rule that the document cannot express.
type fieldError struct{ field, rule, limit string }

func (e *fieldError) Error() string { return fmt.Sprintf("%s: %s %s", e.field, e.rule, e.limit) }
