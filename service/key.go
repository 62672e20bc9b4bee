package service

import (
	"errors"
)

// A Key makes a request idempotent: who sends it again with the same key gets the reply to the first one. The zero
// value is none.
type Key struct {
	// ID is a digest of the caller, the operation, and the key that the client sent: 43 characters of base64url.
	ID string
	// Fingerprint is a digest of what was asked for, decoded and in canonical form: 43 characters of base64url.
	Fingerprint string
}

var (
	// ErrKeyReused: the key was sent with another request. Nothing was written.
	ErrKeyReused = errors.New("the idempotency key was used for another request")
	// ErrKeyTaken is for stores: an order was written with the key. Nothing was written. See [Replayer].
	ErrKeyTaken = errors.New("an order was written with this idempotency key")
)
