package handler

import (
	"net/http"

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
