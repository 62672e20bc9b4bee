package handler

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// table is the only place that maps an error to a status, a type, a Retry-After and its texts. The first match counts,
// because one error may have several causes. For example, a wait for a held lock may end because the server went down.
//
// Clients see only these texts and errors that are safe to show. All other text stays in the log.
func table() []row { return slices.Concat(saleProblems(), requestProblems()) }

// saleProblems are the errors of the service, its stores and its locks.
func saleProblems() []row {
	const (
		notFound    = http.StatusNotFound
		conflict    = http.StatusConflict
		unavailable = http.StatusServiceUnavailable
	)
	return []row{
		{service.ErrInvalid, "invalid", http.StatusBadRequest, 0, explainInvalid},
		{service.ErrUnknownSKU, "unknown_sku", notFound, 0, nil},
		{service.ErrUnknownStrategy, "unknown_strategy", notFound, 0, nil},
		{
			service.ErrKeyReused, "idempotency_key_reused", http.StatusUnprocessableEntity, 0,
			text("idempotency_key_reused.detail"),
		},
		{service.ErrKeyInFlight, "idempotency_in_flight", conflict, 1, text("idempotency_in_flight.detail")},
		{service.ErrSoldOut, "sold_out", conflict, 0, explainSoldOut},
		{service.ErrGuarded, "strategy_mismatch", conflict, 0, explainGuarded},
		{
			service.ErrPrecondition, "precondition_failed", http.StatusPreconditionFailed, 0,
			text("precondition_failed.detail", "read", "GET /v1/stock/{sku}"),
		},
		{service.ErrStockReset, "stock_reset", conflict, 0, nil},
		{service.ErrOutcomeUnknown, "outcome_unknown", unavailable, 0, explainOutcomeUnknown},
		{service.ErrSettled, "order_settled", conflict, 0, text("order_settled.detail")},
		{service.ErrUndecided, "undecided", unavailable, 1, text("undecided.detail")},
		{service.ErrTooOld, "order_too_old", http.StatusGone, 0, text("order_too_old.detail")},
		{service.ErrStaleFence, "stale_fence", unavailable, 1, explainServer},
		{service.ErrOvertaken, "overtaken", unavailable, 1, explainServer},
		{lock.ErrLost, "lock_lost", unavailable, 1, explainServer},
		{service.ErrDataLost, "data_lost", unavailable, 0, explainServer},
		{lock.ErrOverloaded, "overloaded", unavailable, 1, text("overloaded.detail")},
		{lock.ErrFull, "store_full", unavailable, 5, explainFull},
		{lock.ErrDown, "backend_down", unavailable, 2, explainServer},
		{lock.ErrNoCapacity, "no_capacity", unavailable, 1, text("no_capacity.detail")},
		{context.DeadlineExceeded, "lock_timeout", unavailable, 1, nil},
		{context.Canceled, "client_gone", 499, 0, nil},
		{lock.ErrHeld, "lock_busy", unavailable, 1, explainHeld},
		{service.ErrStopping, "stopping", unavailable, 1, text("stopping.detail")},
		{service.ErrNotInspectable, "not_inspectable", notFound, 0, text("not_inspectable.detail")},
		{
			service.ErrNotEvictable, "not_evictable", http.StatusMethodNotAllowed, 0,
			textWith("Allow", http.MethodGet+", "+http.MethodHead, "not_evictable.detail"),
		},
		{service.ErrNotPaused, "not_paused", notFound, 0, text("not_paused.detail")},
	}
}

// requestProblems are the errors of HTTP itself, and last that of what no other row matches.
func requestProblems() []row {
	const (
		notFound     = http.StatusNotFound
		unauthorized = http.StatusUnauthorized
		media        = http.StatusUnsupportedMediaType
	)
	return []row{
		{errNoSuchProblem, "not_found", notFound, 0, text("not_found.problem")},
		{errNotFound, "not_found", notFound, 0, text("not_found.detail")},
		{errMethod, "method_not_allowed", http.StatusMethodNotAllowed, 0, explainMethod},
		{errNoAdmin, "unauthorized", unauthorized, 0, textWith("WWW-Authenticate", bearer, "unauthorized.no-token")},
		{errUnauthorized, "unauthorized", unauthorized, 0, textWith("WWW-Authenticate", bearer, "unauthorized.detail")},
		{
			errTooLarge, "too_large", http.StatusRequestEntityTooLarge, 0,
			text("too_large.detail", "most", MaxBody),
		},
		{
			errSlowBody, "request_timeout", http.StatusRequestTimeout, 0,
			text("request_timeout.detail", "most", bodyTimeout.Seconds()),
		},
		{
			errEncoded, "unsupported_media_type", media, 0,
			textWith("Accept-Encoding", "identity", "unsupported_media_type.encoded"),
		},
		{errCharset, "unsupported_media_type", media, 0, text("unsupported_media_type.charset")},
		{errMedia, "unsupported_media_type", media, 0, text("unsupported_media_type.detail")},
		{errRate, "rate_limited", http.StatusTooManyRequests, 0, nil},
		{errNoReply, "bad_gateway", http.StatusBadGateway, 0, nil},
		{errNoReplyInTime, "gateway_timeout", http.StatusGatewayTimeout, 0, nil},
		{errInternal, "internal", http.StatusInternalServerError, 0, nil},
	}
}

// bearer is the challenge of header WWW-Authenticate.
const bearer = `Bearer realm="stock admin"`

// Only a gateway in front of the instances replies with these problems (deploy/nginx.conf); they are here so that
// /problems explains them. If the member "sent" of such a problem is false, no instance got the request, and the client
// can send it again.
var (
	errRate          = errors.New("too many requests from one address")
	errNoReply       = errors.New("no reply from an instance")
	errNoReplyInTime = errors.New("no reply from an instance in time")
)

func explainGuarded(err error) (p problem) {
	if guarded, ok := errors.AsType[*service.GuardError](err); ok {
		p.detail = phrases.Say("strategy_mismatch.detail", "guard", guarded.Guard, "set", "PUT /v1/stock/{sku}")
	}
	return p
}

// explainOutcomeUnknown explains how to find out the outcome by the order's id.
func explainOutcomeUnknown(err error) (p problem) {
	order, ok := errors.AsType[*service.OrderError](err)
	if !ok {
		return explainServer(err)
	}
	p.OrderID, p.Settle = order.OrderID, settlePath(order)
	p.detail = phrases.Say("outcome_unknown.detail", "settle", "POST "+p.Settle)
	return p
}

// settlePath returns the path that settles an order whose outcome is unknown. It names the store, which may not be
// the default.
func settlePath(o *service.OrderError) string {
	query := url.Values{"store": {o.Store}}
	return "/v1/stock/" + url.PathEscape(string(o.SKU)) + "/orders/" + o.OrderID + "/settle?" + query.Encode()
}
