package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// idempotencyKey returns the key of a request, or "".
func idempotencyKey(header http.Header) (string, error) {
	switch values := header.Values(service.KeyHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return service.ParseKey(values[0])
	default:
		return "", service.Invalid(service.KeyHeader, "twice")
	}
}

// markReplay marks a reply that was stored with the idempotency key and is sent again.
func markReplay(c *gin.Context, replayed bool) {
	if replayed {
		c.Header("Idempotent-Replayed", "true")
	}
}
