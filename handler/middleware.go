package handler

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/uuid"
)

// Keys of values in the gin context.
const (
	requestIDKey = "request_id"
	problemKey   = "problem"
	StrategyKey  = "strategy"
	StreamKey    = "stream"
)

// goodRequestID reports whether a client's request id may appear in logs and orders: it must match
// ^[A-Za-z0-9._:-]{1,64}$.
func goodRequestID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == ':', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(id) && len(id) <= 64
}

// RequestID returns the id of the request.
func RequestID(c *gin.Context) string { return c.GetString(requestIDKey) }

// identify gives every request an id, and adds this id and the name of the instance to the reply.
func (b *Base) identify(c *gin.Context) {
	id := c.GetHeader("X-Request-Id")
	if !goodRequestID(id) {
		id = uuid.NewString()
	}
	c.Set(requestIDKey, id)
	c.Header("X-Request-Id", id)
	c.Writer.Header()["X-Instance"] = b.instance
}

// measure counts and logs every request once.
func (b *Base) measure(c *gin.Context) {
	began := time.Now()
	c.Next()
	took := time.Since(began)
	route := c.FullPath()
	if route == "" {
		route = "none" // unknown paths must not become metric labels
	}
	if !c.GetBool(StreamKey) { // a stream lasts as long as its client, so its duration is not a latency
		b.Meter.Request(route, c.Request.Method, c.Writer.Status(), took)
	}
	if problem := c.GetString(problemKey); problem != "" {
		b.Meter.Problem(route, c.Request.Method, problem)
	}
	level := slog.LevelInfo
	if route == "/livez" || route == "/readyz" || route == "/metrics" {
		level = slog.LevelDebug
	}
	b.log.LogAttrs(c, level, "request",
		slog.String("request_id", RequestID(c)),
		slog.String("method", Shorten(c.Request.Method)),
		slog.String("path", shownPath(c)),
		slog.Int("status", c.Writer.Status()),
		slog.String("strategy", c.GetString(StrategyKey)),
		slog.String("problem", c.GetString(problemKey)),
		slog.Duration("took", took),
	)
}

// recoverPanic turns a panic into the reply for an internal error.
func (b *Base) recoverPanic(c *gin.Context) {
	defer func() {
		if r := recover(); r != nil {
			if r == http.ErrAbortHandler {
				panic(r)
			}
			b.log.ErrorContext(c, "panic",
				"value", fmt.Sprint(r), "stack", string(debug.Stack()), "request_id", RequestID(c))
			b.answer(c, b.rowOf(errInternal), errInternal)
		}
	}()
	c.Next()
}
