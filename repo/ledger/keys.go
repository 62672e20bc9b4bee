package ledger

import (
	"errors"

	"example.com/stock/service/order"
)

// errKeyTaken reports that the idempotency key of a step exists already: another request with the same key was faster.
// The caller then reads the reply that was kept with the key.
var errKeyTaken = errors.New("the idempotency key is there")

// A known is the fingerprint and the reply that were kept with an idempotency key.
type known struct {
	Fingerprint string `json:"fingerprint"`
	Reply       []byte `json:"reply"`
}

// replay returns what Step returns if the idempotency key of its request is k.
func (k *known) replay(key order.Key) (reply []byte, replayed bool, err error) {
	if k.Fingerprint != key.Fingerprint {
		return nil, false, order.ErrKeyReused
	}
	return k.Reply, true, nil
}
