package ledger

import (
	"errors"

	"example.com/stock/service/order"
)

// errKeyTaken reports that the idempotency key of a step already exists, because another request with the same key
// was faster. The caller then reads the reply that is stored with the key.
var errKeyTaken = errors.New("the idempotency key exists")

// A known is what is stored with an idempotency key.
type known struct {
	Fingerprint string `json:"fingerprint"`
	Reply       []byte `json:"reply"`
}

// replay returns the results of a Step with key, if k is stored with the same id.
func (k *known) replay(key order.Key) (reply []byte, replayed bool, err error) {
	if k.Fingerprint != key.Fingerprint {
		return nil, false, order.ErrKeyReused
	}
	return k.Reply, true, nil
}
