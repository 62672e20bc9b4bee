package order

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// admin is the caller of what only the operator may do. It is no customer: a customer's name has no blank.
const admin = "the admin"

// NewKey makes the Key of a request: the same one for the same caller, operation (method and path) and key, and a
// fingerprint of what is asked for. A key without its caller would hand one customer's answers to another. asked is
// what the request says after it was decoded, so that neither the order of fields nor that of lines matters.
func NewKey(caller, operation, key string, asked any) (Key, error) {
	if key == "" {
		return Key{}, nil
	}
	canonical, err := json.Marshal(asked)
	if err != nil {
		return Key{}, fmt.Errorf("fingerprint: %w", err)
	}
	return Key{ID: digest(caller, operation, key), Fingerprint: digest(string(canonical))}, nil
}

// digest is the same for the same list of parts alone: each is written with its length.
func digest(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
