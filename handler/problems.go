package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"example.com/stock/lock"
	"example.com/stock/order"
	"example.com/stock/service"
)

// A kind is one type of problem. Its name is the last part of the type URI. It is stable: clients match on it.
type kind struct {
	name   string
	status int
	title  string
	retry  int // seconds for Retry-After; 0: repeating the same request does not help
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

	Lines []order.Shortage `json:"lines,omitempty"`
	SKU   service.SKU      `json:"sku,omitempty"`
	Limit int64            `json:"limit,omitempty"`
	State string           `json:"state,omitempty"`

	header map[string]string // sent with it
}

// A row of the table says how an error is answered.
type row struct {
	is      error
	kind    kind
	explain func(error) problem // the detail and what else this error knows; nil: the title is all there is to say
}

// table is the only place where an error becomes a status, a type, a title, a detail and a Retry-After. The first match
// counts: one error may carry several causes, such as a wait for a held lock that ended because the server went down.
//
// What is shown to a client comes from here and from errors that are safe to show. Other text stays in the log.
func table(profile Profile) []row {
	const (
		gone        = http.StatusNotFound
		conflict    = http.StatusConflict
		unavailable = http.StatusServiceUnavailable
	)
	contended, many := unavailable, unavailable
	if profile == Shop { // to be one of too many is no outage, and must not look like one to a load balancer
		contended, many = conflict, http.StatusTooManyRequests
	}
	var (
		notFound     = kind{"not_found", gone, "No such resource", 0}
		unauthorized = kind{"unauthorized", http.StatusUnauthorized, "Admin token needed", 0}
		media        = kind{"unsupported_media_type", http.StatusUnsupportedMediaType, "Body is not JSON", 0}
		lockBusy     = kind{"lock_busy", contended, "The lock is held", 1}
	)
	return []row{
		{errInvalid, kind{"invalid", http.StatusBadRequest, "Invalid request", 0}, explainInvalid},
		{service.ErrUnknownSKU, kind{"unknown_sku", gone, "Unknown SKU", 0}, nil},
		{service.ErrUnknownStrategy, kind{"unknown_strategy", gone, "Unknown strategy", 0}, nil},
		{order.ErrNotFound, kind{"not_found", gone, "No such resource", 0}, text("There is no such order or reservation " +
			"of this customer.")},
		{
			order.ErrKeyReused,
			kind{"idempotency_key_reused", http.StatusUnprocessableEntity, "The key was used for another request", 0},
			text("This Idempotency-Key was sent with another request before. Nothing was written. " +
				"Send the same request again, or this one with a key of its own."),
		},
		{
			service.ErrKeyInFlight,
			kind{"idempotency_in_flight", conflict, "The request is under way", 1},
			text("A request with this Idempotency-Key is under way. Send it again: its reply is kept."),
		},
		{
			order.ErrExpired, // before its causes: too few are left, or the customer may not have them
			kind{"reservation_expired", conflict, "The reservation has expired", 0},
			explainExpired,
		},
		{order.ErrLimit, kind{"limit_reached", conflict, "The limit per customer is reached", 0}, explainLimit},
		{order.ErrState, kind{"wrong_state", conflict, "It has ended in another way", 0}, explainState},
		{
			order.ErrBelowZero,
			kind{"below_zero", conflict, "There is less in stock", 0},
			text("There is less in stock than is to be taken off. Nothing was written."),
		},
		{service.ErrSoldOut, kind{"sold_out", conflict, "Sold out", 0}, explainSoldOut},
		{
			service.ErrGuarded,
			kind{"strategy_mismatch", conflict, "Another strategy guards this stock", 0},
			explainGuarded,
		},
		{
			service.ErrPrecondition,
			kind{"precondition_failed", http.StatusPreconditionFailed, "The stock is another", 0},
			text("The stock has changed since its ETag was read, or exists, or does not: " +
				"read it anew (GET /v1/stock/{sku}). Nothing was written."),
		},
		{service.ErrStockReset, kind{"stock_reset", conflict, "The stock was set anew meanwhile", 0}, nil},
		{
			service.ErrOutcomeUnknown,
			kind{"outcome_unknown", unavailable, "The outcome is not known", 0},
			explainOutcomeUnknown,
		},
		{
			service.ErrSettled,
			kind{"order_settled", conflict, "The order was settled as absent", 0},
			text("Somebody asked whether this order exists before it was written, and was told that it never will; " +
				"or it was made too long ago. Nothing was sold."),
		},
		{
			service.ErrUndecided,
			kind{"undecided", unavailable, "Not decided yet", 1},
			text("The order is being written, or too many are being settled. Nothing is decided: ask again."),
		},
		{
			service.ErrTooOld,
			kind{"order_too_old", http.StatusGone, "The order is too old to tell", 0},
			text("There is no such order, but one as old may have been removed: ask within 12 hours."),
		},
		{
			service.ErrStaleFence,
			kind{"stale_fence", contended, "A later lock holder has written", 1},
			explainServer,
		},
		{service.ErrOvertaken, kind{"overtaken", contended, "Another wrote past the lock", 1}, explainServer},
		{lock.ErrLost, kind{"lock_lost", unavailable, "The lock was lost", 1}, explainServer},
		{service.ErrDataLost, kind{"data_lost", unavailable, "The store has lost its data", 0}, explainServer},
		{
			lock.ErrOverloaded,
			kind{"overloaded", many, "More requests than can be served", 1},
			text("More requests wait for a server than it can serve in time. Nothing was done. " +
				"Try again later, and less often."),
		},
		{lock.ErrDown, kind{"backend_down", unavailable, "A backend is down", 2}, explainServer},
		{
			lock.ErrNoCapacity,
			kind{"no_capacity", many, "No connection was free to ask for the lock", 1},
			text("This strategy keeps a connection for each key, and all that this instance has for it are in use; " +
				"whether the lock is held is not known."),
		},
		{context.DeadlineExceeded, kind{"lock_timeout", contended, "The lock was not free in time", 1}, nil},
		{context.Canceled, kind{"client_gone", 499, "The client went away", 0}, nil},
		{lock.ErrHeld, lockBusy, explainHeld},
		{
			service.ErrStopping,
			kind{"stopping", unavailable, "The instance is stopping", 1},
			text("This instance stops, and the request had not begun to sell. Nothing was done: ask again, " +
				"and another instance answers."),
		},
		{
			service.ErrNotInspectable,
			kind{"not_inspectable", gone, "No lock that tells who has it", 0},
			text("This strategy has no lock, or one that does not tell who has it."),
		},
		{
			service.ErrNotEvictable,
			kind{"not_evictable", http.StatusMethodNotAllowed, "A lock without a fence", 0},
			textWith("Allow", http.MethodGet+", "+http.MethodHead,
				"This strategy's lock has no fence: a holder from whom it is taken could still write."),
		},
		{
			service.ErrNotPaused,
			kind{"not_paused", gone, "Nobody waits there", 0},
			text("No sale of that request waits at a point of this instance: it was let go, it has ended, " +
				"or it has not got there. GET /v1/lab/pauses lists those that wait."),
		},
		{errNoSuchProblem, notFound, text("There is no such type of problem.")},
		{errNotFound, notFound, text("There is nothing here. GET /openapi.json lists what there is.")},
		{
			errMethod,
			kind{"method_not_allowed", http.StatusMethodNotAllowed, "Method not allowed", 0},
			explainMethod,
		},
		{
			errNoAdmin, unauthorized,
			textWith("WWW-Authenticate", bearer,
				"This instance has no admin token; start it with STOCK_ADMIN_TOKEN to allow this."),
		},
		{
			errUnauthorized, unauthorized,
			textWith("WWW-Authenticate", bearer, "Send the header Authorization: Bearer <admin token>."),
		},
		{
			errTooLarge,
			kind{"too_large", http.StatusRequestEntityTooLarge, "Body too large", 0},
			text(fmt.Sprintf("The body must have at most %d bytes.", MaxBody)),
		},
		{
			errSlowBody,
			kind{"request_timeout", http.StatusRequestTimeout, "The body did not come in time", 0},
			text(fmt.Sprintf("The body must come within %.0f s.", bodyTimeout.Seconds())),
		},
		{
			errEncoded, media,
			textWith("Accept-Encoding", "identity", "Send the body as it is, without a Content-Encoding."),
		},
		{errMedia, media, text("Send the body with the header Content-Type: application/json.")},
		{errNoReply, kind{"bad_gateway", http.StatusBadGateway, "No reply from an instance", 0}, nil},
		{
			errNoReplyInTime,
			kind{"gateway_timeout", http.StatusGatewayTimeout, "No reply from an instance in time", 0},
			nil,
		},
		{errInternal, kind{"internal", http.StatusInternalServerError, "Internal error", 0}, nil},
	}
}

const bearer = `Bearer realm="stock admin"`

// What the HTTP layer itself finds.
var (
	errInvalid       = errors.New("invalid request")
	errNotFound      = errors.New("not found")
	errNoSuchProblem = fmt.Errorf("%w: type of problem", errNotFound)
	errMethod        = errors.New("method not allowed")
	errUnauthorized  = errors.New("unauthorized")
	errNoAdmin       = fmt.Errorf("%w: there is no admin token", errUnauthorized)
	errTooLarge      = errors.New("body too large")
	errSlowBody      = errors.New("body did not come in time")
	errMedia         = errors.New("body is not JSON")
	errEncoded       = fmt.Errorf("%w: it is encoded", errMedia)
	errInternal      = errors.New("internal error")
)

// What only a gateway in front of the instances answers (deploy/nginx.conf). These are here to be explained. "sent" in
// such a problem says whether an instance may have got the request; if not, it can be sent again.
var (
	errNoReply       = errors.New("no reply from an instance")
	errNoReplyInTime = errors.New("no reply from an instance in time")
)

// A methodError is an errMethod that names the methods which are allowed.
type methodError struct{ allowed string }

func (e *methodError) Error() string        { return "method not allowed, only " + e.allowed }
func (e *methodError) Is(target error) bool { return target == errMethod }

// text explains every error of a row in the same words.
func text(detail string) func(error) problem {
	return func(error) problem { return problem{Detail: detail} }
}

// textWith is text for a row whose answer has a header of its own.
func textWith(header, value, detail string) func(error) problem {
	return func(error) problem { return problem{Detail: detail, header: map[string]string{header: value}} }
}

func explainInvalid(err error) (p problem) {
	if invalid, ok := errors.AsType[*service.InvalidError](err); ok {
		p.Field, p.Detail = invalid.Field, invalid.Error()
	}
	return p
}

func explainSoldOut(err error) (p problem) {
	if soldOut, ok := errors.AsType[*service.SoldOutError](err); ok {
		p.Detail, p.Remaining = soldOut.Error(), &soldOut.Remaining
	}
	if short, ok := errors.AsType[*order.ShortError](err); ok {
		p.Detail = "Not all lines can be had, so none was taken: lines has those that are short."
		p.Lines = short.Lines
	}
	return p
}

// explainExpired says what is missing to sell a reservation that has expired all the same.
func explainExpired(err error) (p problem) {
	p = explainSoldOut(err)
	if limit := explainLimit(err); limit.Detail != "" {
		p = limit
	}
	p.Detail = "Its units were given back, and they cannot be had again. Nothing was sold: give the money back."
	return p
}

func explainLimit(err error) (p problem) {
	if limit, ok := errors.AsType[*order.LimitError](err); ok {
		p.Detail = limit.Error() + "; what is reserved counts, and what was given back does not"
		p.SKU, p.Limit, p.Remaining = limit.SKU, limit.Limit, &limit.Remaining
	}
	return p
}

func explainState(err error) (p problem) {
	if ended, ok := errors.AsType[*order.StateError](err); ok {
		p.Detail, p.State = "Nothing was changed: "+ended.Error()+".", ended.State
	}
	return p
}

func explainGuarded(err error) (p problem) {
	if guarded, ok := errors.AsType[*service.GuardError](err); ok && guarded.Guard == order.Guard {
		p.Detail = "This stock is sold by orders (POST /v1/orders), for good: strategies may not."
	} else if ok {
		p.Detail = fmt.Sprintf("%v, and two strategies do not exclude each other; "+
			"set the stock anew (PUT /v1/stock/{sku}) to use another", guarded)
	}
	return p
}

// explainOutcomeUnknown says how to find out. Without the order's id there is nothing to ask with.
func explainOutcomeUnknown(err error) (p problem) {
	if step, ok := errors.AsType[*order.UnknownError](err); ok {
		return explainUnknownStep(step)
	}
	order, ok := errors.AsType[*service.OrderError](err)
	if !ok {
		return explainServer(err)
	}
	p.OrderID, p.Settle = order.OrderID, settlePath(order)
	p.Detail = "The connection to the store broke after the write was sent. The units are sold if the order " +
		"exists, and it may still come to be: before you try again send POST " + p.Settle +
		", which decides it for good. With an Idempotency-Key the same request could just be sent again."
	return p
}

// explainUnknownStep says how to find out about a step of the ledger. With a key, or for what has one end, that is to
// send the same request again: it is done once.
func explainUnknownStep(step *order.UnknownError) (p problem) {
	const broke = "The connection to the store broke after the write was sent. It was written as a whole, or not at all, " +
		"and may still be: "
	if step.Again {
		p.Detail = broke + "send the same request again, with the same Idempotency-Key if it had one. " +
			"It is done once."
		p.header = map[string]string{"Retry-After": "1"}
		return p
	}
	p.Detail = broke + "look before you try again (GET). With an Idempotency-Key it could just be sent again."
	return p
}

// explainServer names the server that is the cause, if one is: a lock may be lost because Redis is down.
func explainServer(err error) (p problem) {
	if lost, ok := errors.AsType[*service.DataLostError](err); ok {
		p.Detail = lost.Error()
	} else if down, ok := errors.AsType[*lock.DownError](err); ok {
		p.Detail = down.Error()
	}
	return p
}

func explainHeld(err error) (p problem) {
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		p.Detail = held.Error()
	} else if errors.Is(err, service.ErrConflict) {
		p.Detail = "Nothing is locked, but in every try somebody else wrote between the read and the write."
	}
	return p
}

func explainMethod(err error) (p problem) {
	if method, ok := errors.AsType[*methodError](err); ok {
		p.Detail = "Use " + method.allowed + "."
	}
	return p
}

// rowOf returns the first row that err matches. An error that matches none is an internal one.
func (h *handler) rowOf(err error) row {
	if _, ok := errors.AsType[*service.InvalidError](err); ok {
		return h.problems[0]
	}
	for _, row := range h.problems {
		if errors.Is(err, row.is) {
			return row
		}
	}
	return h.problems[len(h.problems)-1]
}

// fail answers err, and logs it if an operator should know of it.
func (h *handler) fail(c *gin.Context, err error) { h.failAs(c, h.rowOf(err), err) }

// failAs is fail for an error whose row is known.
func (h *handler) failAs(c *gin.Context, row row, err error) {
	switch name := row.kind.name; {
	case name == "internal":
		h.log.ErrorContext(c, "request failed", "err", err, "request_id", requestID(c), "path", shownPath(c))
	case row.kind.status >= 500 && !routine(name) && !logged(err):
		h.log.WarnContext(c, name, "err", err, "request_id", requestID(c), "path", shownPath(c))
	}
	h.answer(c, row, err)
}

// routine reports whether a problem is part of a busy day.
func routine(name string) bool {
	return name == "lock_busy" || name == "lock_timeout" || name == "overloaded" || name == "no_capacity"
}

// logged reports whether err comes from a backend that is known to be down, or to have lost its data. That was logged
// when it happened: once, not once for every request.
func logged(err error) bool {
	_, lost := errors.AsType[*service.DataLostError](err)
	_, down := errors.AsType[*lock.DownError](err)
	return lost || down
}

// answer writes the problem that row makes of err.
func (h *handler) answer(c *gin.Context, row row, err error) {
	var p problem
	if row.explain != nil {
		p = row.explain(err)
	}
	k := row.kind
	if p.Detail == "" {
		p.Detail = k.title + "."
	}
	p.Type, p.Title, p.Status = "/problems/"+k.name, k.title, k.status
	p.Instance, p.RequestID = shownPath(c), requestID(c)
	for name, value := range p.header {
		c.Header(name, value)
	}
	if k.retry > 0 {
		c.Header("Retry-After", strconv.Itoa(k.retry))
	}
	c.Set(problemKey, k.name)
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(k.status, p)
}

// shownPath returns as much of a request's path as is logged and shown.
func shownPath(c *gin.Context) string { return truncate(c.Request.URL.Path, 200) }

// explainProblem answers the type URI of a problem with what it means.
func (h *handler) explainProblem(c *gin.Context) {
	if !h.noFields(c) {
		return
	}
	for _, row := range h.problems {
		if row.kind.name == c.Param("name") {
			c.JSON(http.StatusOK, gin.H{
				"type": "/problems/" + row.kind.name, "title": row.kind.title, "status": row.kind.status,
				"retry_helps": row.kind.retry > 0,
			})
			return
		}
	}
	h.fail(c, errNoSuchProblem)
}
