package handler

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"example.com/stock/service"
)

// IdempotencyKey returns the key of a request, or "".
func IdempotencyKey(header http.Header) (string, error) {
	switch values := header.Values(service.KeyHeader); len(values) {
	case 0:
		return "", nil
	case 1:
		return service.ParseKey(values[0])
	default:
		return "", service.Invalid(service.KeyHeader, "twice")
	}
}

// Replay marks a reply that was stored with the idempotency key and is sent again.
func Replay(c *gin.Context, replayed bool) {
	if replayed {
		c.Header("Idempotent-Replayed", "true")
	}
}

// Missing returns the error for an absent required field.
func Missing(field string) error { return service.Invalid(field, "missing") }
