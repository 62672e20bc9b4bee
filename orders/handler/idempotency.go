package handler

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"example.com/stock/orders/repo"
)

// keyOf returns the idempotency key of a request, or repo.NoKey. A key belongs to a customer and an operation on a
// target, such as an id; a key in quotes is the same as one without.
//
// The fingerprint is of the whole decoded body, so it knows every field of the document. A field that is absent is not
// in it: when the document gets a new optional field, the keys of requests without it stay valid. The order of fields
// does not count.
func keyOf(ctx context.Context, operation, target, key string, body any) (repo.Key, error) {
	if key == "" {
		return repo.NoKey, nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		return repo.NoKey, fmt.Errorf("fingerprint of %s: %w", operation, err)
	}
	id := strings.Join([]string{customerOf(ctx), operation, target, strings.Trim(key, `"`)}, "\x00")
	return repo.Key{ID: sha256.Sum256([]byte(id)), Fingerprint: sha256.Sum256(text)}, nil
}
