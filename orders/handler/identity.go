package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/routers"
	"github.com/gin-gonic/gin"
)

// An Identity is what a token proves.
type Identity struct {
	Customer string // its subject
	Scopes   []string
}

// An Identifier checks tokens. Its errors match ErrToken or ErrKeys.
type Identifier interface {
	Identify(ctx context.Context, token string) (Identity, error)
}

var (
	ErrToken = errors.New("no valid token")
	ErrKeys  = errors.New("the keys of the issuer cannot be read")
	errScope = errors.New("the token lacks a scope")
)

type scopeError struct{ scopes []string }

func (e *scopeError) Error() string { return "the token lacks " + strings.Join(e.scopes, " ") }
func (e *scopeError) Unwrap() error { return errScope }

type identityKey struct{}

// identify checks the token of a request, and whether it has the scopes that the document wants of the operation. It
// comes before all other checks, so that nobody without a token learns what they would find.
func identify(c *gin.Context, route *routers.Route, by Identifier) error {
	requirements := route.Spec.Security
	if own := route.Operation.Security; own != nil {
		requirements = *own
	}
	if len(requirements) == 0 {
		return nil
	}
	kind, token, _ := strings.Cut(c.GetHeader("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || len(c.Request.Header.Values("Authorization")) != 1 {
		return fmt.Errorf("%w: there is no header Authorization: Bearer", ErrToken)
	}
	who, err := by.Identify(c.Request.Context(), strings.TrimSpace(token))
	if err != nil {
		return err
	}
	var missing []string
	for _, scope := range requirements[0]["oidc"] {
		if !slices.Contains(who.Scopes, scope) {
			missing = append(missing, scope)
		}
	}
	if missing != nil {
		return &scopeError{missing}
	}
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), identityKey{}, who))
	return nil
}

// customerOf returns the customer of a request whose operation needs a token.
func customerOf(ctx context.Context) string { return ctx.Value(identityKey{}).(Identity).Customer }
