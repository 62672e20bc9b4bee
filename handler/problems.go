package handler

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	problemtext "example.com/stock/handler/text"
	"example.com/stock/internal/words"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// phrases has the texts of the problems, by name, in both languages. The texts are for people; programs read the type
// and the fields of a problem.
var phrases = problemtext.Book()

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

	detail words.Text        // Detail in both languages; empty: the title is the detail
	header map[string]string // further headers of the reply
}

// A row of the table maps an error to its problem.
type row struct {
	is      error
	name    string // the last part of the type URI; it is stable, because clients match on it
	status  int
	retry   int                 // seconds for Retry-After; 0: repeating the same request does not help
	explain func(error) problem // sets the detail and further members; nil: the title is the detail
}

// title returns a short description of the problem.
func (r row) title() words.Text { return phrases.Say(r.name + ".title") }

// Errors of the HTTP layer itself.
var (
	errNotFound      = errors.New("not found")
	errNoSuchProblem = fmt.Errorf("%w: type of problem", errNotFound)
	errMethod        = errors.New("method not allowed")
	errTooLarge      = errors.New("body too large")
	errSlowBody      = errors.New("body did not come in time")
	errMedia         = errors.New("body is not JSON")
	errEncoded       = fmt.Errorf("%w: it is encoded", errMedia)
	errCharset       = fmt.Errorf("%w: it is not UTF-8", errMedia)
	errInternal      = errors.New("internal error")
)

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
	return p
}

// explainServer names the server that caused the error, if there is one. For example, a lock may be lost because Redis
// is down.
func explainServer(err error) (p problem) {
	if lost, ok := errors.AsType[*service.DataLostError](err); ok {
		p.detail = phrases.Say("data_lost.detail", "store", lost.Store,
			"set", "PUT /v1/stock/{sku}?store="+lost.Store)
	} else if down, ok := errors.AsType[*driver.DownError](err); ok {
		p.detail, _ = Said(down)
	}
	return p
}

func explainFull(err error) (p problem) {
	if full, ok := errors.AsType[*driver.DownError](err); ok {
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

func explainMethod(err error) (p problem) {
	if method, ok := errors.AsType[*methodError](err); ok {
		p.detail = phrases.Say("method_not_allowed.detail", "allowed", method.allowed)
	}
	return p
}

// rowOf returns the first row that err matches. An error that matches no row is an internal error.
func (h *handler) rowOf(err error) row {
	for _, row := range h.problems {
		if errors.Is(err, row.is) {
			return row
		}
	}
	return h.problems[len(h.problems)-1]
}

// problemOf returns the name of the problem for err.
func (h *handler) problemOf(err error) string { return h.rowOf(err).name }

// fail replies with the problem for err, and logs errors that an operator should see.
func (h *handler) fail(c *gin.Context, err error) {
	row, ctx := h.rowOf(err), c.Request.Context()
	switch {
	case row.name == "internal":
		h.Log.ErrorContext(ctx, "request failed", "err", err, "request_id", requestID(c), "path", shownPath(c))
	case row.status >= 500 && !common(row.name) && !logged(err):
		h.Log.WarnContext(ctx, row.name, "err", err, "request_id", requestID(c), "path", shownPath(c))
	}
	h.answer(c, row, err)
}

// common reports whether a problem is normal under load, and so is not logged.
func common(name string) bool {
	return name == "lock_busy" || name == "lock_timeout" || name == "overloaded" || name == "no_capacity"
}

// logged reports whether err comes from a server that is down or has lost its data. That was logged when it happened.
func logged(err error) bool {
	_, lost := errors.AsType[*service.DataLostError](err)
	_, down := errors.AsType[*driver.DownError](err)
	return lost || down
}

// answer replies with the problem of row, explained by err.
func (h *handler) answer(c *gin.Context, row row, err error) {
	var p problem
	if row.explain != nil {
		p = row.explain(err)
	}
	title := row.title()
	if p.detail == (words.Text{}) {
		p.detail = words.Text{EN: title.EN + ".", ZH: title.ZH + "。"}
	}
	lang := negotiate(c)
	p.Type, p.Title, p.Status, p.Detail = "/problems/"+row.name, title.In(lang), row.status, p.detail.In(lang)
	p.Instance, p.RequestID, p.TraceID = shownPath(c), requestID(c), traceID(c.Request.Context())
	if row.retry > 0 {
		c.Header("Retry-After", strconv.Itoa(row.retry))
	}
	for name, value := range p.header { // also a Retry-After that depends on the error
		c.Header(name, value)
	}
	noteOf(c).problem = row.name
	c.Header("Content-Type", "application/problem+json")
	c.AbortWithStatusJSON(row.status, p)
}

// negotiate returns the language of a reply, and sets Content-Language and Vary.
func negotiate(c *gin.Context) (lang string) {
	lang = words.Accept(strings.Join(c.Request.Header.Values("Accept-Language"), ","))
	c.Header("Content-Language", lang)
	c.Writer.Header().Add("Vary", "Accept-Language")
	return lang
}

// shownPath returns the path of a request, cut for logs and replies.
func shownPath(c *gin.Context) string { return truncate(c.Request.URL.Path, 200) }

func (h *handler) explainProblem(c *gin.Context) error {
	for _, row := range h.problems {
		if row.name == c.Param("name") {
			c.JSON(http.StatusOK, gin.H{
				"type": "/problems/" + row.name, "title": row.title().In(negotiate(c)),
				"status": row.status, "retry_helps": row.retry > 0,
			})
			return nil
		}
	}
	return errNoSuchProblem
}
