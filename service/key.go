package service

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A Key makes a request idempotent: a client that sends the request again with the same key gets the first reply,
// unless the Service is overloaded. The key is written in one step with the order. The zero Key means that the request
// has no key.
type Key struct {
	// ID is a digest of the operation and the client's key.
	ID string
	// Fingerprint is a digest of the decoded request in canonical form.
	Fingerprint string
}

// KeyLength is the length of each digest of a Key, in characters of base64url.
const KeyLength = 43

// KeepKeys is how long a store remembers a key. MySQL remembers it for longer: the key is a column of the order and
// lasts as long as the order.
const KeepKeys = 24 * time.Hour

// MaxKeyText is the longest idempotency key that a client may send, in visible ASCII characters.
const MaxKeyText = 255

var (
	// ErrKeyReused: the key was sent with another request. Nothing was written.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrKeyTaken is for stores: an order was written with the key. Nothing was written.
	ErrKeyTaken = errors.New("an order was written with this idempotency key")
)

// NewKey returns the Key of a request. Its ID depends on the operation (method and path) and on the client's key. asked
// is the decoded request, so the order of JSON fields does not matter. If key is empty, NewKey returns the zero Key.
func NewKey(operation, key string, asked any) (Key, error) {
	if key == "" {
		return Key{}, nil
	}
	canonical, err := json.Marshal(asked)
	if err != nil {
		return Key{}, fmt.Errorf("fingerprint: %w", err)
	}
	// The first part is empty, so that keys of earlier versions, which could name a caller there, are still found.
	return Key{ID: digest("", operation, key), Fingerprint: digest(string(canonical))}, nil
}

// digest returns the digest of a list of parts. Each part is written with its length, so different lists differ.
func digest(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	sum := sha256.Sum256([]byte(b.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// KeyHeader is the header in which a client sends its idempotency key.
const KeyHeader = "Idempotency-Key"

// quoted is an idempotency key in quotes. In it, \" means " and \\ means \.
var quoted = regexp.MustCompile(`^"((?:[^"\\]|\\["\\])*)"$`)

// ParseKey checks an idempotency key: 1 to MaxKeyText visible ASCII characters. The IETF draft puts the key in quotes,
// but most clients omit them; both forms are the same key.
func ParseKey(s string) (string, error) {
	key := s
	if strings.HasPrefix(s, `"`) {
		inside := quoted.FindStringSubmatch(s)
		if inside == nil {
			return "", Invalid(KeyHeader, "quotes")
		}
		key = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inside[1])
	}
	if len(key) < 1 || len(key) > MaxKeyText {
		return "", Invalid(KeyHeader, "key-length", "least", 1, "most", MaxKeyText, "has", len(key))
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", Invalid(KeyHeader, "ascii")
	}
	return key, nil
}

// replay returns the order of an earlier request with the key of d. If there is none, it returns failed, the error of
// d itself.
func (s *Service) replay(ctx context.Context, d *deduction, failed error) (Receipt, error) {
	o, found, err := s.orderOf(ctx, d)
	switch {
	case errors.Is(err, ErrKeyReused):
		return Receipt{}, err
	case found:
		return Receipt{
			Order: o, Store: d.Store, HolderFence: lock.Fence(o.Fence), Replayed: true, AcquiredAt: o.CreatedAt,
			ReadAt: o.CreatedAt, WrittenAt: o.CreatedAt, ReleasedAt: o.CreatedAt, Tries: 1,
		}, nil
	case errors.Is(failed, ErrKeyTaken):
		// The store refused the sale because the key exists, but the order of the key cannot be read.
		down := driver.Down("look for the order of the key", errors.New("it cannot be read"))
		return Receipt{}, errors.Join(down, err)
	}
	return Receipt{}, failed
}

// orderOf looks for the order that was written with the key of d.
func (s *Service) orderOf(ctx context.Context, d *deduction) (o Order, found bool, err error) {
	if d.store.Needs.Err() != nil {
		return Order{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Work)
	defer cancel()
	return d.store.Store.Replay(Begin(ctx), d.SKU, d.Key)
}
