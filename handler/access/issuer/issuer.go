// Package issuer makes tokens for demonstrations and tests, signed with a key file of its own. It is no authorization
// server: it asks for no password.
package issuer

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"example.com/stock/handler/access"
)

// An Issuer signs tokens with Ed25519.
type Issuer struct {
	private ed25519.PrivateKey
	kid     string
}

// A Claim is what a token says.
type Claim struct {
	Issuer, Audience, Subject string
	Scopes                    []access.Scope
	TTL                       time.Duration
}

// Open reads the private key of a file (PKCS #8 in PEM), and makes the file if there is none, for its owner only.
func Open(path string) (i *Issuer, made bool, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = create(path)
		made = err == nil
		if errors.Is(err, fs.ErrExist) { // another process was faster
			text, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return nil, false, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, false, fmt.Errorf("%s: it is not PEM", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, false, fmt.Errorf("%s: it has no Ed25519 key", path)
	}
	return New(private), made, nil
}

// New makes an Issuer of a key. The kid follows from the key.
func New(private ed25519.PrivateKey) *Issuer {
	sum := sha256.Sum256(private.Public().(ed25519.PublicKey))
	return &Issuer{private, base64.RawURLEncoding.EncodeToString(sum[:12])}
}

// create writes a new key. It fails if the file exists.
func create(path string) ([]byte, error) {
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return text, write(path, text, 0o600, os.Link)
}

// write makes a file as a whole or not at all: place gives it its name.
func write(path string, text []byte, mode fs.FileMode, place func(from, to string) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.Write(text)
	if err = errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	return place(file.Name(), path)
}

// JWKS returns the public key for the service.
func (i *Issuer) JWKS() []byte {
	public := base64.RawURLEncoding.EncodeToString(i.private.Public().(ed25519.PublicKey))
	text, _ := json.Marshal(map[string]any{"keys": []any{map[string]string{ // it cannot fail
		"kty": "OKP", "crv": "Ed25519", "x": public, "kid": i.kid, "alg": "EdDSA", "use": "sig",
	}}})
	return append(text, '\n')
}

// WriteJWKS writes the public key to a file that the service reads (tokens.keys_file), unless it has it already.
func (i *Issuer) WriteJWKS(path string) error {
	if text, err := os.ReadFile(path); err == nil && string(text) == string(i.JWKS()) {
		return nil
	}
	return write(path, i.JWKS(), 0o644, os.Rename) // it is public
}

// Token makes a token.
func (i *Issuer) Token(c Claim) (string, error) {
	var scopes []string
	for _, s := range c.Scopes {
		scopes = append(scopes, string(s))
	}
	now := time.Now()
	return i.Sign(jwt.MapClaims{
		"iss": c.Issuer, "aud": c.Audience, "sub": c.Subject, "scope": strings.Join(scopes, " "),
		"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(c.TTL).Unix(), "jti": uuid.NewString(),
	})
}

// Sign signs any claims.
func (i *Issuer) Sign(claims map[string]any) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, jwt.MapClaims(claims))
	token.Header["kid"] = i.kid
	return token.SignedString(i.private)
}
