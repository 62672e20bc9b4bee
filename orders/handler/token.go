package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"
)

// TokenOptions say which bearer tokens are valid: those that the issuer has signed, or, for development, those that are
// signed with a shared secret.
type TokenOptions struct {
	Issuer    string
	Audience  string            // which a token must be for; "": any, only with a secret
	KeysURL   string            // of the issuer's keys; "": where the issuer says that they are
	Secret    string            // at least MinSecret bytes; then there is no issuer
	Transport http.RoundTripper // to the issuer; nil: the usual one
}

// MinSecret is the length in bytes of the shortest secret: shorter ones can be guessed from a token.
const MinSecret = 32

const (
	maxToken    = 8 << 10 // a proxy in front must pass headers of this size
	maxCustomer = 255     // bytes, as the column has
	leeway      = 30 * time.Second
)

// Tokens checks tokens. It implements Identifier.
type Tokens struct {
	parser *jwt.Parser
	secret []byte
	keys   *keys // nil: tokens are signed with the secret
}

// NewTokens reads no keys yet: Run does.
func NewTokens(o TokenOptions) (*Tokens, error) {
	options := []jwt.ParserOption{jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(leeway)}
	if o.Audience != "" {
		options = append(options, jwt.WithAudience(o.Audience))
	}
	switch {
	case o.Issuer != "" && o.Secret != "":
		return nil, errors.New("tokens: there is an issuer and a secret, and either would do")
	case o.Issuer != "" && o.Audience != "":
		options = append(options, jwt.WithIssuer(o.Issuer), jwt.WithValidMethods([]string{
			"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
		}))
		return &Tokens{parser: jwt.NewParser(options...), keys: newKeys(o)}, nil
	case o.Issuer != "":
		return nil, errors.New("tokens: without an audience, tokens for other services would be valid")
	case len(o.Secret) < MinSecret:
		return nil, fmt.Errorf("tokens: the secret must have at least %d bytes", MinSecret)
	}
	options = append(options, jwt.WithValidMethods([]string{"HS256"}))
	return &Tokens{parser: jwt.NewParser(options...), secret: []byte(o.Secret)}, nil
}

// Identify returns who a token is of.
func (t *Tokens) Identify(ctx context.Context, token string) (Identity, error) {
	if len(token) > maxToken {
		return Identity{}, fmt.Errorf("%w: it has more than %d bytes", ErrToken, maxToken)
	}
	claims := jwt.MapClaims{} // a struct would also take "SUB" for "sub"
	_, err := t.parser.ParseWithClaims(token, claims, func(token *jwt.Token) (any, error) { return t.key(ctx, token) })
	if errors.Is(err, ErrKeys) {
		return Identity{}, err
	}
	if err != nil {
		return Identity{}, fmt.Errorf("%w: %w", ErrToken, err)
	}
	customer, err := claims.GetSubject()
	if err != nil || !mayBeCustomer(customer) {
		return Identity{}, fmt.Errorf("%w: sub must be text of 1 to %d bytes, without control characters, and not end"+
			" with a space", ErrToken, maxCustomer)
	}
	return Identity{Customer: customer, Scopes: append(scopesOf(claims["scope"]), scopesOf(claims["scp"])...)}, nil
}

// key returns the keys that the token may be signed with.
func (t *Tokens) key(ctx context.Context, token *jwt.Token) (any, error) {
	if _, given := token.Header["crit"]; given {
		return nil, errors.New("it has extensions that must be understood (crit), and none is")
	}
	if t.keys == nil {
		return t.secret, nil
	}
	kid, given := token.Header["kid"]
	id, text := kid.(string)
	if given && !text {
		return nil, errors.New("kid is no text")
	}
	found, err := t.keys.find(ctx, id, token.Method.Alg())
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("the issuer has no key %.64q for %s", id, token.Method.Alg())
	}
	return jwt.VerificationKeySet{Keys: found}, err
}

// Run keeps the keys of the issuer current until ctx ends.
func (t *Tokens) Run(ctx context.Context) {
	if t.keys != nil {
		t.keys.run(ctx)
	}
}

// Ready fails while there is no key to check tokens with.
func (t *Tokens) Ready() error {
	if t.keys == nil {
		return nil
	}
	_, err := t.keys.current()
	return err
}

// mayBeCustomer: the database ignores spaces at the end when it compares, so one customer would see the orders of
// another. U+FFFD stands for what was no UTF-8, so two customers could have it in common.
func mayBeCustomer(name string) bool {
	return name != "" && len(name) <= maxCustomer && !strings.HasSuffix(name, " ") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == utf8.RuneError })
}

// scopesOf returns the scopes of a claim, which is text with spaces or a list.
func scopesOf(claim any) (scopes []string) {
	switch c := claim.(type) {
	case string:
		return strings.Fields(c)
	case []any:
		for _, scope := range c {
			if text, ok := scope.(string); ok {
				scopes = append(scopes, text)
			}
		}
	}
	return scopes
}
