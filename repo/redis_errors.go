package repo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// sent tells whether a command that failed with err may have run. It has not where there was no connection to send it on, and
// where Redis answered with an error, since our scripts fail before they write. All else counts as sent: also a greeting (HELLO)
// that a new connection's server left unanswered, which cannot be told apart. That errs on the side that promises nothing.
func sent(err error) bool {
	var answered redis.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &answered):
		return false
	case errors.As(err, &dial) && dial.Op == "dial":
		return false
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return false
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// go-redis looks at a ctx while it waits for a connection. A deadline that passes on the socket is os.ErrDeadlineExceeded.
		return false
	}
	return true
}

// movingSlots tells whether a cluster refused a command because it is moving the slot, and has done nothing. go-redis
// follows MOVED and ASK some times itself, and so does not repeat what was sent and not answered.
func movingSlots(err error) bool {
	for _, word := range [...]string{"TRYAGAIN", "ASK", "MOVED"} {
		if redis.HasErrorPrefix(err, word+" ") {
			return true
		}
	}
	return false
}

// redisFault is what a failed request that wrote nothing means.
func redisFault(ctx context.Context, doing, key string, err error) error {
	var answered redis.Error
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		// All connections are busy: that is our load, and says nothing of the server.
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	if !errors.As(err, &answered) {
		if ctx.Err() != nil {
			return ended(ctx, doing)
		}
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			// The socket has the same deadline, and may notice it a moment before ctx does.
			return lock.Down(doing, context.DeadlineExceeded)
		}
		return lock.Down(doing, err)
	}
	// Redis before 7 and embedded ones put the words "ERR Error running script" in front.
	said := err.Error()
	if strings.Contains(said, "WRONGTYPE") {
		return fmt.Errorf("%s: key %s must be a hash, %s:orders a list and %s:settled a sorted set;"+
			" delete what is there and set the stock again: %w", doing, key, key, key, err)
	}
	for _, known := range [...]struct{ word, reason string }{
		{"READONLY", "it is a read-only replica: the address must be the master's"},
		{"OOM", "it is out of memory: raise maxmemory"},
		{"LOADING", "it is still loading its data"},
		{"MASTERDOWN", "it is a replica that has lost its master"},
		{"Hash slot not served", "its cluster does not serve the slot of this SKU"},
		{"CLUSTERDOWN", "its cluster is down"},
		{"TRYAGAIN", "its cluster is moving slots"},
		{"ASK ", "its cluster is moving slots"},
		{"MOVED ", "its cluster is moving slots"},
		{"NOREPLICAS", "it has fewer replicas than min-replicas-to-write"},
		{"MISCONF", "it cannot save to disk"},
		{"BUSY", "it is busy with a script"},
		{"NOAUTH", "it wants a password"},
		{"WRONGPASS", "it refused the password"},
		{"NOPERM", "the user lacks a permission"},
		{"max number of clients", "it has too many clients: raise maxclients"},
	} {
		if strings.Contains(said, known.word) {
			return fmt.Errorf("%s: %w: %w", doing, &lock.DownError{Server: "redis", Reason: known.reason}, err)
		}
	}
	return lock.Down(doing, err)
}

func staleFence(seen any) error {
	return fmt.Errorf("%w (it had fence %v)", service.ErrStaleFence, seen)
}
