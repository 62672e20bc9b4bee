package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// unsureLife is how long a request without an answer is reckoned with: it may wait in the socket of a server that is stopped,
// and be done when that goes on.
const unsureLife = time.Hour

var errLookAgain = lock.Down("look for a late request", errors.New("not found yet"))

// recall takes back what a request without an answer has done, or will yet do. tell looks whose key it is, deletes it if it
// is ours, and is then nil.
//
// It tells once before it returns, on a context of its own. That nothing was found then proves nothing: Redis reads its connections in no
// promised order, and the request may come after. Once the server has answered, though, it has read all that had come before: whoever
// asks a second time after an answer knows. So it looks again in the background until something was found or two answers have come.
func (s *sweeper) recall(ctx context.Context, tell func(context.Context) error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	answers := 0
	look := func(ctx context.Context) error {
		err := tell(ctx)
		if err == nil || errors.Is(err, lock.ErrDown) {
			return err
		}
		if answers++; answers < 2 {
			return errLookAgain
		}
		return nil
	}
	if look(detached) != nil {
		s.add(look, time.Now().Add(unsureLife))
	}
}
