package handler

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"example.com/stock/handler/access"
	problemtext "example.com/stock/handler/text"
	"example.com/stock/internal/words"
	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/service/order"
)

// phrases has the texts of the problems, by name, in both languages. The texts are for people; programs read the type
// and the fields of a problem.
var phrases = problemtext.Book()

// A kind is a type of problem. Its name is the last part of the type URI. It is stable, because clients match on it.
type kind struct {
	name   string
	status int
	retry  int // seconds for Retry-After; 0: repeating the same request does not help
}

// A problem is a reply as in RFC 9457 (application/problem+json).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Instance  string `json:"instance"`
	RequestID string `json:"request_id"`
	TraceID   string `json:"trace_id,omitempty"`
	Field     string `json:"field,omitempty"`
	OrderID   string `json:"order_id,omitempty"`
	Settle    string `json:"settle,omitempty"`
	Remaining *int64 `json:"remaining,omitempty"`

	Lines []order.Shortage `json:"lines,omitempty"`
	SKU   service.SKU      `json:"sku,omitempty"`
	Limit int64            `json:"limit,omitempty"`
	Of    string           `json:"of,omitempty"`
	State string           `json:"state,omitempty"`

	Scopes []access.Scope `json:"scopes,omitempty"`

	detail words.Text        // Detail in both languages; empty: the title is the detail
	header map[string]string // further headers of the reply
}

// title returns a short description of a kind of problem.
func (k kind) title() words.Text { return phrases.Say(k.name + ".title") }

// A row of the table maps an error to its problem.
type row struct {
	is      error
	kind    kind
	explain func(error) problem // sets the detail and further members; nil: the title is the detail
}

// Errors of the HTTP layer itself.
var (
	errInvalid       = errors.New("invalid request")
	errNotFound      = errors.New("not found")
	errNoSuchProblem = fmt.Errorf("%w: type of problem", errNotFound)
	errMethod        = errors.New("method not allowed")
	errUnauthorized  = errors.New("unauthorized")
	errNoAdmin       = fmt.Errorf("%w: there is no admin token", errUnauthorized)
	errScope         = errors.New("the token lacks a scope")
	errTooLarge      = errors.New("body too large")
	errSlowBody      = errors.New("body did not come in time")
	errMedia         = errors.New("body is not JSON")
	errEncoded       = fmt.Errorf("%w: it is encoded", errMedia)
	errCharset       = fmt.Errorf("%w: it is not UTF-8", errMedia)
	errInternal      = errors.New("internal error")
)

// ErrNotYours: a request names another customer than its token.
var ErrNotYours = errors.New("not the customer of the token")

// A methodError is an errMethod with the allowed methods.
type methodError struct{ allowed string }

func (e *methodError) Error() string        { return "method not allowed, only " + e.allowed }
func (e *methodError) Is(target error) bool { return target == errMethod }

// text returns an explain func with the same detail for every error of a row.
func text(key string, pairs ...any) func(error) problem {
	return func(error) problem { return problem{detail: phrases.Say(key, pairs...)} }
}

// textWith is like text, for a row whose reply has an additional header.
func textWith(header, value, key string) func(error) problem {
	return func(error) problem {
		return problem{detail: phrases.Say(key), header: map[string]string{header: value}}
	}
}

func explainInvalid(err error) (p problem) {
	if invalid, ok := errors.AsType[*service.InvalidError](err); ok {
		p.Field = invalid.Field
		p.detail, _ = Said(invalid)
	}
	return p
}

func explainSoldOut(err error) (p problem) {
	if soldOut, ok := errors.AsType[*service.SoldOutError](err); ok {
		p.detail, p.Remaining = phrases.Say("sold_out.detail", "n", soldOut.Remaining), &soldOut.Remaining
	}
	if short, ok := errors.AsType[*order.ShortError](err); ok {
		p.detail = phrases.Say("sold_out.lines")
		p.Lines = short.Lines
	}
	return p
}

// explainExpired explains why an expired reservation could not be sold from the remaining stock.
func explainExpired(err error) (p problem) {
	p = explainSoldOut(err)
	if limit := explainLimit(err); limit.SKU != "" {
		p = limit
	}
	p.detail = phrases.Say("reservation_expired.detail")
	return p
}

func explainLimit(err error) (p problem) {
	if limit, ok := errors.AsType[*order.LimitError](err); ok {
		p.detail = phrases.Say("limit_reached.detail", "limit", limit.Limit, "sku", limit.SKU, "n", limit.Remaining)
		p.SKU, p.Limit, p.Remaining = limit.SKU, limit.Limit, &limit.Remaining
	}
	return p
}

func explainHold(err error) (p problem) {
	hold, ok := errors.AsType[*order.HoldError](err)
	if !ok {
		return p
	}
	switch limit, n := hold.Limit, hold.Remaining; hold.Of {
	case order.OfOpen:
		p.detail = phrases.Say("too_many_reservations.open", "limit", limit)
	case order.OfUnits:
		p.detail = phrases.Say("too_many_reservations.units", "limit", limit, "n", n)
	default:
		p.detail = phrases.Say("too_many_reservations.share", "limit", limit, "sku", hold.SKU, "n", n)
	}
	p.SKU, p.Limit, p.Of, p.Remaining = hold.SKU, hold.Limit, hold.Of, &hold.Remaining
	return p
}

// explainEarly says when the extension may be sent again, in whole seconds.
func explainEarly(err error) (p problem) {
	if early, ok := errors.AsType[*order.EarlyError](err); ok {
		seconds := int64((early.Wait + time.Second - 1) / time.Second)
		p.detail = phrases.Say("extended_too_soon.detail", "n", seconds)
		p.header = map[string]string{"Retry-After": strconv.FormatInt(seconds, 10)}
	}
	return p
}

func explainState(err error) (p problem) {
	if ended, ok := errors.AsType[*order.StateError](err); ok {
		p.detail, p.State = phrases.Say("wrong_state.detail", "state", ended.State), ended.State
	}
	return p
}

// explainUnknownStep explains how to find out the outcome of a step of the ledger. An idempotent one can be sent again.
func explainUnknownStep(step *order.UnknownError) (p problem) {
	if step.Again {
		p.detail = phrases.Say("outcome_unknown.again")
		p.header = map[string]string{"Retry-After": "1"}
		return p
	}
	p.detail = phrases.Say("outcome_unknown.look")
	return p
}

// explainServer names the server that caused the error, if there is one. For example, a lock may be lost because Redis
// is down.
func explainServer(err error) (p problem) {
	if lost, ok := errors.AsType[*service.DataLostError](err); ok {
		p.detail = phrases.Say("data_lost.detail", "store", lost.Store,
			"set", "PUT /v1/stock/{sku}?store="+lost.Store)
	} else if down, ok := errors.AsType[*lock.DownError](err); ok {
		p.detail, _ = Said(down)
	}
	return p
}

func explainFull(err error) (p problem) {
	if full, ok := errors.AsType[*lock.DownError](err); ok {
		p.detail = phrases.Say("store_full.detail", "server", full.Server, "reason", down(full))
	}
	return p
}

func explainHeld(err error) (p problem) {
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		p.detail = explainHolder(held)
	} else if errors.Is(err, service.ErrConflict) {
		p.detail = phrases.Say("lock_busy.conflict")
	}
	return p
}

// explainHolder describes the holder of a lock and the longest remaining time of its lease, as far as they are known.
func explainHolder(held *lock.HeldError) words.Text {
	parts := []words.Text{phrases.Say("lock_busy.detail", "key", strconv.Quote(held.Key))}
	if held.Holder != "" {
		parts = append(parts, phrases.Say("lock_busy.by", "holder", held.Holder))
	}
	if held.Remaining > 0 {
		parts = append(parts, phrases.Say("lock_busy.for", "time", held.Remaining.String()))
	}
	return words.Join(parts, words.Text{EN: " ", ZH: "，"})
}

// explainToken explains why a token is not valid. The header says the same to a program (RFC 6750).
func explainToken(err error) (p problem) {
	bad, ok := errors.AsType[*access.TokenError](err)
	if !ok {
		return p
	}
	reason := phrases.Say("token."+bad.Reason, bad.Values...)
	p.detail = phrases.Say("unauthorized.invalid", "reason", reason)
	p.header = map[string]string{
		"WWW-Authenticate": customersRealm + `, error="invalid_token", error_description="` + reason.EN + `"`,
	}
	return p
}

// explainScope names the scopes, one of which is enough.
func explainScope(err error) (p problem) {
	missing, ok := errors.AsType[*scopeError](err)
	if !ok {
		return p
	}
	p.Scopes = missing.needs
	p.detail = phrases.Say("scope_missing.detail", "scopes", strings.ReplaceAll(missing.words(), " ", ", "))
	if slices.Contains(missing.needs, access.Lab) {
		p.detail = phrases.Say("scope_missing.operator")
	}
	p.header = map[string]string{
		"WWW-Authenticate": customersRealm + `, error="insufficient_scope", scope="` + missing.words() + `"`,
	}
	return p
}

func explainTwoTokens(error) problem {
	return explainInvalid(service.Invalid("Authorization", "twice"))
}

func explainNotYours(error) problem {
	return problem{Field: "customer", detail: phrases.Say("not_yours.detail")}
}

func explainMethod(err error) (p problem) {
	if method, ok := errors.AsType[*methodError](err); ok {
		p.detail = phrases.Say("method_not_allowed.detail", "allowed", method.allowed)
	}
	return p
}

// rowOf returns the first row that err matches. An error that matches no row is an internal error.
func (b *Base) rowOf(err error) row {
	if _, ok := errors.AsType[*service.InvalidError](err); ok {
		return b.problems[0]
	}
	for _, row := range b.problems {
		if errors.Is(err, row.is) {
			return row
		}
	}
	return b.problems[len(b.problems)-1]
}

// Problem returns the name of the problem for err.
func (b *Base) Problem(err error) string { return b.rowOf(err).kind.name }

// Fail replies with the problem for err, and logs errors that an operator should see.
func (b *Base) Fail(c *gin.Context, err error) {
	row, ctx := b.rowOf(err), c.Request.Context()
	switch name := row.kind.name; {
	case name == "internal":
		b.log.ErrorContext(ctx, "request failed", "err", err, "request_id", RequestID(c), "path", shownPath(c))
	case row.kind.status >= 500 && !common(name) && !logged(err):
		b.log.WarnContext(ctx, name, "err", err, "request_id", RequestID(c), "path", shownPath(c))
	}
	b.answer(c, row, err)
}

// common reports whether a problem is normal under load, and so is not logged.
func common(name string) bool {
	return name == "lock_busy" || name == "lock_timeout" || name == "overloaded" || name == "no_capacity"
}

// logged reports whether err comes from a server that is down or has lost its data. That was logged when it happened.
func logged(err error) bool {
	_, lost := errors.AsType[*service.DataLostError](err)
	_, down := errors.AsType[*lock.DownError](err)
	return lost || down || errors.Is(err, access.ErrKeys)
}

// answer replies with the problem of row, explained by err.
func (b *Base) answer(c *gin.Context, row row, err error) {
	var p problem
	if row.explain != nil {
		p = row.explain(err)
	}
	k := row.kind
	if p.detail == (words.Text{}) {
		p.detail = words.Text{EN: k.title().EN + ".", ZH: k.title().ZH + "。"}
	}
	lang := Negotiate(c)
	p.Type, p.Title, p.Status, p.Detail = "/problems/"+k.name, k.title().In(lang), k.status, p.detail.In(lang)
	p.Instance, p.RequestID = shownPath(c), RequestID(c)
	if b.Tracer != nil {
		p.TraceID = b.Tracer.ID(c.Request.Context())
	}
	if k.retry > 0 {
		c.Header("Retry-After", strconv.Itoa(k.retry))
	}
	for name, value := range p.header { // also a Retry-After that depends on the error
		c.Header(name, value)
	}
	c.Set(problemKey, k.name)
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(k.status, p)
}

// Negotiate returns the language of a reply, and sets Content-Language and Vary.
func Negotiate(c *gin.Context) (lang string) {
	lang = words.Accept(strings.Join(c.Request.Header.Values("Accept-Language"), ","))
	c.Header("Content-Language", lang)
	c.Writer.Header().Add("Vary", "Accept-Language")
	return lang
}

// shownPath returns the path of a request, cut for logs and replies.
func shownPath(c *gin.Context) string { return Truncate(c.Request.URL.Path, 200) }

func (b *Base) explainProblem(c *gin.Context) {
	if !b.NoFields(c) {
		return
	}
	for _, row := range b.problems {
		if row.kind.name == c.Param("name") {
			c.JSON(http.StatusOK, gin.H{
				"type": "/problems/" + row.kind.name, "title": row.kind.title().In(Negotiate(c)),
				"status": row.kind.status, "retry_helps": row.kind.retry > 0,
			})
			return
		}
	}
	b.Fail(c, errNoSuchProblem)
}
