package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A kind is one type of problem. Its name is the last part of the type URI, and stable: clients match on it.
type kind struct {
	name   string
	status int
	title  string
	retry  int // seconds for Retry-After; 0: retrying the same request does not help
}

// A problem is an answer by RFC 9457 (application/problem+json).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
	RequestID string `json:"request_id"`
	Field     string `json:"field,omitempty"`
	OrderID   string `json:"order_id,omitempty"`
	Settle    string `json:"settle,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`
}

// A row of the table from errors to answers.
type row struct {
	is   error
	kind kind
}

// table is the one table from errors to answers. The first match counts: one error may carry several causes, such as a wait
// for a held lock that ended because the server went down.
func table() []row {
	return []row{
		{errInvalid, kind{"invalid", http.StatusBadRequest, "Invalid request", 0}},
		{service.ErrUnknownSKU, kind{"unknown_sku", http.StatusNotFound, "Unknown SKU", 0}},
		{service.ErrUnknownStrategy, kind{"unknown_strategy", http.StatusNotFound, "Unknown strategy", 0}},
		{service.ErrSoldOut, kind{"sold_out", http.StatusConflict, "Sold out", 0}},
		{service.ErrGuarded, kind{"strategy_mismatch", http.StatusConflict, "Another strategy guards this stock", 0}},
		{service.ErrPrecondition, kind{"precondition_failed", http.StatusPreconditionFailed, "The stock is another", 0}},
		{service.ErrStockReset, kind{"stock_reset", http.StatusConflict, "The stock was set anew meanwhile", 0}},
		{service.ErrOutcomeUnknown, kind{"outcome_unknown", http.StatusServiceUnavailable, "The outcome is not known", 0}},
		{service.ErrSettled, kind{"order_settled", http.StatusConflict, "The order was settled as absent", 0}},
		{service.ErrUndecided, kind{"undecided", http.StatusServiceUnavailable, "Not decided yet", 1}},
		{service.ErrTooOld, kind{"order_too_old", http.StatusGone, "The order is too old to tell", 0}},
		{service.ErrStaleFence, kind{"stale_fence", http.StatusServiceUnavailable, "A later lock holder has written", 1}},
		{service.ErrOvertaken, kind{"overtaken", http.StatusServiceUnavailable, "Another wrote past the lock", 1}},
		{lock.ErrLost, kind{"lock_lost", http.StatusServiceUnavailable, "The lock was lost", 1}},
		{service.ErrDataLost, kind{"data_lost", http.StatusServiceUnavailable, "The store has lost its data", 0}},
		{lock.ErrOverloaded, kind{"overloaded", http.StatusServiceUnavailable, "More requests than can be served", 1}},
		{lock.ErrDown, kind{"backend_down", http.StatusServiceUnavailable, "A backend is down", 2}},
		{lock.ErrNoCapacity, kind{"no_capacity", http.StatusServiceUnavailable, "No connection was free to ask for the lock", 1}},
		{context.DeadlineExceeded, kind{"lock_timeout", http.StatusServiceUnavailable, "The lock was not free in time", 1}},
		{context.Canceled, kind{"client_gone", 499, "The client went away", 0}},
		{lock.ErrHeld, kind{"lock_busy", http.StatusServiceUnavailable, "The lock is held", 1}},
		{service.ErrNotInspectable, kind{"not_inspectable", http.StatusNotFound, "No lock that tells who has it", 0}},
		{service.ErrNotEvictable, kind{"not_evictable", http.StatusMethodNotAllowed, "A lock without a fence", 0}},
		{service.ErrNotPaused, kind{"not_paused", http.StatusNotFound, "Nobody waits there", 0}},
		{errNotFound, kind{"not_found", http.StatusNotFound, "No such resource", 0}},
		{errMethod, kind{"method_not_allowed", http.StatusMethodNotAllowed, "Method not allowed", 0}},
		{errUnauthorized, kind{"unauthorized", http.StatusUnauthorized, "Admin token needed", 0}},
		{errTooLarge, kind{"too_large", http.StatusRequestEntityTooLarge, "Body too large", 0}},
		{errSlowBody, kind{"request_timeout", http.StatusRequestTimeout, "The body did not come in time", 0}},
		{errMedia, kind{"unsupported_media_type", http.StatusUnsupportedMediaType, "Body is not JSON", 0}},
		{errNoReply, kind{"bad_gateway", http.StatusBadGateway, "No reply from an instance", 0}},
		{errNoReplyInTime, kind{"gateway_timeout", http.StatusGatewayTimeout, "No reply from an instance in time", 0}},
		{errInternal, kind{"internal", http.StatusInternalServerError, "Internal error", 0}},
	}
}

// What the HTTP layer itself finds.
var (
	errInvalid      = errors.New("invalid request")
	errNotFound     = errors.New("not found")
	errMethod       = errors.New("method not allowed")
	errUnauthorized = errors.New("unauthorized")
	errTooLarge     = errors.New("body too large")
	errSlowBody     = errors.New("body did not come in time")
	errMedia        = errors.New("body is not JSON")
	errEncoded      = fmt.Errorf("%w: it is encoded", errMedia)
	errInternal     = errors.New("internal error")
)

// What only a gateway in front of the instances answers (deploy/nginx.conf): here to be explained. "sent" in such a
// problem says whether an instance may have got the request; if not, it can be sent again.
var (
	errNoReply       = errors.New("no reply from an instance")
	errNoReplyInTime = errors.New("no reply from an instance in time")
)

func kindOf(err error) kind {
	rows := table()
	if _, ok := errors.AsType[*service.InvalidError](err); ok {
		return rows[0].kind
	}
	for _, row := range rows {
		if errors.Is(err, row.is) {
			return row.kind
		}
	}
	return rows[len(rows)-1].kind
}

// fail answers err. What it says comes from errors that are safe to show; other text stays in the log.
func (h *handler) fail(c *gin.Context, err error) {
	k := kindOf(err)
	p := problem{Detail: k.title + "."}
	var (
		invalid *service.InvalidError
		soldOut *service.SoldOutError
		guarded *service.GuardError
		down    *lock.DownError
		lost    *service.DataLostError
		held    *lock.HeldError
		order   *service.OrderError
	)
	switch {
	case errors.As(err, &invalid):
		p.Field, p.Detail = invalid.Field, invalid.Error()
	case errors.As(err, &soldOut):
		p.Detail, p.Remaining = soldOut.Error(), &soldOut.Remaining
	case errors.As(err, &guarded):
		p.Detail = fmt.Sprintf("%v, and two strategies do not exclude each other; set the stock anew (PUT /v1/stock/{sku}) to use another", guarded)
	case errors.Is(err, service.ErrNotInspectable):
		p.Detail = "This strategy has no lock, or one that does not tell who has it."
	case errors.Is(err, service.ErrNotEvictable):
		p.Detail = "This strategy's lock has no fence: a holder from whom it is taken could still write."
		c.Header("Allow", http.MethodGet+", "+http.MethodHead)
	case errors.Is(err, service.ErrNotPaused):
		p.Detail = "No sale of that request waits at a point of this instance: it was let go, it has ended, or it has not got there. GET /v1/lab/pauses lists those that wait."
	case errors.Is(err, service.ErrOutcomeUnknown) && errors.As(err, &order):
		p.OrderID, p.Settle = order.OrderID, settlePath(order)
		p.Detail = "The connection to the store broke after the write was sent. The units are sold if the order " +
			"exists, and it may still come to be: before you try again send POST " + p.Settle +
			", which decides it for good."
	case errors.Is(err, lock.ErrOverloaded):
		p.Detail = "More requests wait for a server than it can serve in time. Nothing was done. Try again later, and less often."
	case errors.Is(err, service.ErrSettled):
		p.Detail = "Somebody asked whether this order exists before it was written, and was told that it never will; " +
			"or it was made too long ago. Nothing was sold."
	case errors.Is(err, service.ErrUndecided):
		p.Detail = "The order is being written, or too many are being settled. Nothing is decided: ask again."
	case errors.Is(err, service.ErrTooOld):
		p.Detail = "There is no such order, but one as old may have been removed: ask within 12 hours."
	case errors.Is(err, service.ErrPrecondition):
		p.Detail = "The stock has changed since its ETag was read, or exists, or does not: " +
			"read it anew (GET /v1/stock/{sku}). Nothing was written."
	case errors.As(err, &lost):
		p.Detail = lost.Error()
	case errors.As(err, &down):
		p.Detail = down.Error()
	case k.name == "no_capacity":
		p.Detail = "This strategy keeps a connection for each key, and all that this instance has for it are in use; whether the lock is held is not known."
	case k.name == "lock_busy" && errors.As(err, &held):
		p.Detail = held.Error()
	case k.name == "lock_busy" && errors.Is(err, service.ErrConflict):
		p.Detail = "Nothing is locked, but in every try somebody else wrote between the read and the write."
	}
	if k.name == "internal" {
		h.log.ErrorContext(c, "request failed", "err", err, "request_id", requestID(c), "path", shownPath(c))
	} else if k.status >= 500 && k.name != "lock_busy" && k.name != "lock_timeout" && k.name != "overloaded" &&
		k.name != "no_capacity" && lost == nil && down == nil {
		// A backend that is known to be down, or without its data, was logged when it went down: once, not once for every
		// request.
		h.log.WarnContext(c, k.name, "err", err, "request_id", requestID(c), "path", shownPath(c))
	}
	h.problem(c, err, p)
}

// problem writes p as the problem that err is.
func (h *handler) problem(c *gin.Context, err error, p problem) {
	k := kindOf(err)
	p.Type, p.Title, p.Status = "/problems/"+k.name, k.title, k.status
	p.Instance, p.RequestID = shownPath(c), requestID(c)
	if k.retry > 0 {
		c.Header("Retry-After", strconv.Itoa(k.retry))
	}
	c.Set(problemKey, k.name)
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(k.status, p)
}

// shownPath is as much of the path of a request as is logged and told.
func shownPath(c *gin.Context) string { return cut(c.Request.URL.Path, 200) }

// explainProblem answers the type URI of a problem with what it means.
func (h *handler) explainProblem(c *gin.Context) {
	if !h.plain(c) {
		return
	}
	for _, row := range table() {
		if row.kind.name == c.Param("name") {
			c.JSON(http.StatusOK, gin.H{
				"type": "/problems/" + row.kind.name, "title": row.kind.title, "status": row.kind.status,
				"retry_helps": row.kind.retry > 0,
			})
			return
		}
	}
	h.problem(c, errNotFound, problem{Detail: "There is no such type of problem."})
}
