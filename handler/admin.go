package handler

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

var (
	errUnauthorized = errors.New("unauthorized")
	errNoAdmin      = fmt.Errorf("%w: there is no admin token", errUnauthorized)
)

// Tokens are admin tokens, as sums. Several are for their rotation.
type Tokens [][sha256.Size]byte

// NewTokens returns the sums of tokens.
func NewTokens(tokens []string) (sums Tokens) {
	for _, token := range tokens {
		sums = append(sums, sha256.Sum256([]byte(token)))
	}
	return sums
}

// has compares with every token, in constant time. Comparing sums hides the tokens' lengths, too.
func (t Tokens) has(token string) bool {
	sum, found := sha256.Sum256([]byte(token)), 0
	for _, one := range t {
		found |= subtle.ConstantTimeCompare(sum[:], one[:])
	}
	return found == 1
}

// checkAdmin returns an errUnauthorized unless the request has an admin token.
func (h *handler) checkAdmin(header http.Header) error {
	if len(h.Admins) == 0 {
		return errNoAdmin
	}
	// Two headers are refused, because a proxy may have looked at the other one.
	values := header.Values("Authorization")
	if len(values) != 1 {
		return errUnauthorized
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") || !h.Admins.has(strings.TrimLeft(token, " ")) {
		return errUnauthorized
	}
	return nil
}
