package access

import (
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Algorithms returns the algorithms of signatures. Each kind of key has one, so that no token can choose another for
// it: neither none, nor HS256 with a public key as the secret.
func Algorithms() []string { return []string{"RS256", "ES256", "EdDSA"} }

// A Rule says which tokens are valid.
type Rule struct {
	Issuer   string // of claim iss
	Audience string // one of claim aud
	Customer string // the claim that names the customer; "": sub
	Leeway   time.Duration
}

// Tokens verifies tokens. It is safe for concurrent use.
type Tokens struct {
	rule   Rule
	keys   *Keys
	parser *jwt.Parser

	mu       sync.RWMutex
	verified map[[sha256.Size]byte]verified
	previous map[[sha256.Size]byte]verified
}

// A verified is a token that was valid. It stays valid until it expires, or the keys change.
type verified struct {
	caller  Caller
	until   time.Time
	edition uint64 // of the keys
}

// maxVerified is how many verified tokens are remembered, twice at most. A token takes some 300 bytes.
const maxVerified = 4096

func NewTokens(rule Rule, keys *Keys) *Tokens {
	if rule.Customer == "" {
		rule.Customer = "sub"
	}
	return &Tokens{
		rule: rule, keys: keys, verified: make(map[[sha256.Size]byte]verified),
		parser: jwt.NewParser(
			jwt.WithValidMethods(Algorithms()), jwt.WithIssuer(rule.Issuer), jwt.WithAudience(rule.Audience),
			jwt.WithLeeway(rule.Leeway), jwt.WithStrictDecoding(),
		),
	}
}

// Err returns ErrKeys until there is a key to verify tokens with.
func (t *Tokens) Err() error {
	if t.keys.none() {
		return ErrKeys
	}
	return nil
}

// verify returns the caller of a token whose SHA-256 is sum. A signature takes 30 to 100 µs to verify, so that a valid
// token is remembered.
func (t *Tokens) verify(token string, sum [sha256.Size]byte, now time.Time) (Caller, error) {
	edition := t.keys.edition()
	if v, ok := t.remembered(sum); ok && v.edition == edition && now.Before(v.until) {
		return v.caller, nil
	}
	claims := jwt.MapClaims{}
	_, err := t.parser.ParseWithClaims(token, claims, t.key)
	if err != nil {
		return Caller{}, reasonOf(err)
	}
	caller := Caller{scopes: scopesOf(claims)}
	caller.Subject, _ = claims[t.rule.Customer].(string)
	expires, err := claims.GetExpirationTime()
	if err != nil || expires == nil {
		return Caller{}, refused("no-expiry")
	}
	t.remember(sum, verified{caller, expires.Add(t.rule.Leeway), edition})
	return caller, nil
}

func (t *Tokens) remembered(sum [sha256.Size]byte) (v verified, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if v, ok = t.verified[sum]; !ok {
		v, ok = t.previous[sum]
	}
	return v, ok
}

func (t *Tokens) remember(sum [sha256.Size]byte, v verified) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.verified) >= maxVerified {
		t.verified, t.previous = make(map[[sha256.Size]byte]verified), t.verified
	}
	t.verified[sum] = v
}

// key returns the key of a token, by its kid alone. The header may name keys in other ways (jku, x5u, jwk), which are
// never followed.
func (t *Tokens) key(token *jwt.Token) (any, error) {
	if _, critical := token.Header["crit"]; critical {
		return nil, refused("type")
	}
	kind, _ := token.Header["typ"].(string)
	kind = strings.TrimPrefix(strings.ToLower(kind), "application/")
	if !slices.Contains([]string{"", "jwt", "at+jwt"}, kind) {
		return nil, refused("type")
	}
	kid, _ := token.Header["kid"].(string)
	key, err := t.keys.find(context.Background(), kid)
	if err != nil {
		return nil, err
	}
	if key.algorithm != token.Method.Alg() {
		return nil, refused("algorithm")
	}
	return key.public, nil
}

// reasonOf returns the error for a client. Errors of the library may quote the token.
func reasonOf(err error) error {
	if own, ok := errors.AsType[*TokenError](err); ok {
		return own
	}
	for _, row := range []struct {
		is     error
		reason string
	}{
		{jwt.ErrTokenMalformed, "malformed"},
		{jwt.ErrTokenSignatureInvalid, "signature"},
		{jwt.ErrTokenExpired, "expired"},
		{jwt.ErrTokenNotValidYet, "early"},
		{jwt.ErrTokenInvalidIssuer, "issuer"},
		{jwt.ErrTokenInvalidAudience, "audience"},
		{jwt.ErrTokenRequiredClaimMissing, "claim"},
	} {
		if errors.Is(err, row.is) {
			return refused(row.reason)
		}
	}
	if errors.Is(err, ErrKeys) {
		return ErrKeys
	}
	return refused("malformed")
}

// scopesOf returns the known scopes of claim scope, or of claim scp where that is missing: words with blanks between
// them, or a list.
func scopesOf(claims jwt.MapClaims) (list []Scope) {
	value, ok := claims["scope"]
	if !ok {
		value = claims["scp"]
	}
	var words []string
	switch v := value.(type) {
	case string:
		words = strings.Fields(v)
	case []any:
		for _, item := range v {
			word, _ := item.(string)
			words = append(words, word)
		}
	}
	for _, s := range Scopes() {
		if slices.Contains(words, string(s)) {
			list = append(list, s)
		}
	}
	return list
}

// A key verifies signatures of one algorithm.
type key struct {
	algorithm string
	public    crypto.PublicKey
}
