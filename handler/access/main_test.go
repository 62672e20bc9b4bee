package access_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"math/big"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"

	"example.com/stock/handler/access"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuerName = "https://id.example.com"
	audience   = "shop"
)

// A signer is a key of an issuer, with its public half as a JWK.
type signer struct {
	method jwt.SigningMethod
	secret any
	jwk    map[string]any
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// keyPairs are made once, because an RSA key takes long.
var keyPairs = sync.OnceValue(func() map[string]signer {
	public, private, _ := ed25519.GenerateKey(nil)
	ec, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	point, _ := ec.PublicKey.Bytes()
	rs, _ := rsa.GenerateKey(rand.Reader, 2048)
	return map[string]signer{
		"ed": {jwt.SigningMethodEdDSA, private, map[string]any{"kty": "OKP", "crv": "Ed25519", "x": b64(public)}},
		"ec": {jwt.SigningMethodES256, ec, map[string]any{
			"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:]),
		}},
		"rs": {jwt.SigningMethodRS256, rs, map[string]any{
			"kty": "RSA", "n": b64(rs.N.Bytes()), "e": b64(big.NewInt(int64(rs.E)).Bytes()),
		}},
	}
})

// jwks is a set of the named key pairs; the name is the kid.
func jwks(names ...string) []byte {
	keys := []any{}
	for _, name := range names {
		k := map[string]any{"kid": name}
		for member, value := range keyPairs()[name].jwk {
			k[member] = value
		}
		keys = append(keys, k)
	}
	text, _ := json.Marshal(map[string]any{"keys": keys})
	return text
}

func good() jwt.MapClaims {
	now := time.Now()
	return jwt.MapClaims{
		"iss": issuerName, "aud": audience, "sub": "ann", "scope": "orders:own stock:read other",
		"exp": now.Add(time.Hour).Unix(), "nbf": now.Unix(),
	}
}

// with is good with another value of a claim; nil: without the claim.
func with(claim string, value any) jwt.MapClaims {
	claims := good()
	if claims[claim] = value; value == nil {
		delete(claims, claim)
	}
	return claims
}

// sign makes a token with a key pair, and with more members of its header.
func sign(t testing.TB, name string, claims jwt.MapClaims, header ...string) string {
	t.Helper()
	s := keyPairs()[name]
	token := jwt.NewWithClaims(s.method, claims)
	token.Header["kid"] = name
	for i := 0; i < len(header); i += 2 {
		token.Header[header[i]] = header[i+1]
	}
	text, err := token.SignedString(s.secret)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// An origin is a Source that counts.
type origin struct {
	mu    sync.Mutex
	text  []byte
	err   error
	asked int
}

func (o *origin) read(context.Context) ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	return o.text, o.err
}

func (o *origin) set(text []byte, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text, o.err = text, err
}

func (o *origin) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked
}

// doorOf is a Door that knows the keys of a source, and the tokens of two operators.
func doorOf(t testing.TB, source access.Source) (*access.Door, *access.Keys) {
	t.Helper()
	keys := access.NewKeys(source, access.IssuerPace(), slog.New(slog.DiscardHandler))
	tokens := access.NewTokens(access.Rule{Issuer: issuerName, Audience: audience, Leeway: 30 * time.Second}, keys)
	return access.NewDoor(access.Static("operator-1", "operator-2"), tokens), keys
}

func ask(d *access.Door, token string) (access.Caller, error) {
	return d.Caller(http.Header{"Authorization": {"Bearer " + token}})
}

// reason returns why a token is not valid.
func reason(err error) string {
	if bad, ok := errors.AsType[*access.TokenError](err); ok {
		return bad.Reason
	}
	if err != nil {
		return err.Error()
	}
	return "valid"
}
