package access

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
)

// A jwk is a member of a JWKS (RFC 7517), as far as it is a public key that this package knows.
type jwk struct {
	KID string `json:"kid"`
	Kty string `json:"kty"`
	Alg string `json:"alg"`
	Use string `json:"use"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

const (
	maxKeys   = 64 // of one set
	minRSA    = 2048
	maxRSA    = 8192 // a larger one would take too long to verify with
	maxKeySet = 256 << 10
)

// parseKeys returns the keys of a JWKS by their kid. Keys for other purposes are left out; a set without a usable key
// is an error.
func parseKeys(text []byte) (map[string]key, error) {
	var set struct {
		Keys []jwk `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, errors.New("it is not a JWKS")
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	keys := make(map[string]key)
	for _, k := range set.Keys {
		found, ok := k.key()
		if !ok || k.KID == "" {
			continue
		}
		if _, twice := keys[k.KID]; twice {
			return nil, errors.New("two of its keys have the same kid")
		}
		keys[k.KID] = found
	}
	if len(keys) == 0 {
		return nil, errors.New("it has no key with a kid for RS256, ES256 or EdDSA")
	}
	return keys, nil
}

func (k jwk) key() (found key, ok bool) {
	if k.Use != "" && k.Use != "sig" {
		return key{}, false
	}
	switch {
	case k.Kty == "RSA":
		found, ok = k.rsa()
	case k.Kty == "EC" && k.Crv == "P-256":
		found, ok = k.p256()
	case k.Kty == "OKP" && k.Crv == "Ed25519":
		x := decode(k.X)
		found, ok = key{"EdDSA", ed25519.PublicKey(x)}, len(x) == ed25519.PublicKeySize
	}
	return found, ok && (k.Alg == "" || k.Alg == found.algorithm)
}

func (k jwk) rsa() (key, bool) {
	n, e := new(big.Int).SetBytes(decode(k.N)), new(big.Int).SetBytes(decode(k.E))
	if n.BitLen() < minRSA || n.BitLen() > maxRSA || e.BitLen() > 31 || e.Int64() < 3 || e.Bit(0) == 0 {
		return key{}, false
	}
	return key{"RS256", &rsa.PublicKey{N: n, E: int(e.Int64())}}, true
}

func (k jwk) p256() (key, bool) {
	point := append([]byte{4}, append(decode(k.X), decode(k.Y)...)...)
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point) // it must be on the curve
	return key{"ES256", public}, err == nil
}

// decode returns nil for what is not base64url.
func decode(text string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}
