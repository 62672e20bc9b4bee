package ledger

import (
	"errors"

	"example.com/stock/service/order"
)

// errKeyTaken reports that the idempotency key of a step is there: another request with it was faster. What was kept
// with it is then read.
var errKeyTaken = errors.New("the idempotency key is there")

// A known is what an idempotency key was kept with.
type known struct {
	Fingerprint string `json:"fingerprint"`
	Reply       []byte `json:"reply"`
}

// replay returns what Step returns for a key that is known.
func (k *known) replay(key order.Key) (reply []byte, replayed bool, err error) {
	if k.Fingerprint != key.Fingerprint {
		return nil, false, order.ErrKeyReused
	}
	return k.Reply, true, nil
}
