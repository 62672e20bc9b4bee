package request

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/rediserr"
)

// errGone says no more than the server tells: the key expired there, or was evicted or deleted.
var errGone = fmt.Errorf("%w: the key is gone from the server", lock.ErrExpired)

// Ownership converts the reply of a script that compares the owner before it acts. It returns nil if the key was
// ours, ErrExpired if the key is gone, and ErrTaken if another caller has it.
func Ownership(reply int, err error) error {
	switch {
	case err != nil && redis.HasErrorPrefix(err, "WRONGTYPE"):
		return fmt.Errorf("%w: a value that is no lock has its name (%v)", lock.ErrTaken, err)
	case err != nil:
		return Failure("ask", "redis", err)
	case reply == 0:
		return errGone
	case reply < 0:
		return lock.ErrTaken
	}
	return nil
}

// isReply reports whether err is an error reply of the server.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Failure returns the error of a request about the key name that the server refused or did not answer.
func Failure(doing, name string, err error) error {
	if isReply(err) {
		return refusal(name, err)
	}
	return driver.Down(doing+" "+name, err)
}

// Refused reports whether the server answered with an error that proves that nothing was written.
func Refused(err error) bool {
	meaning, _ := rediserr.Of(err)
	return isReply(err) && meaning.Outcome != rediserr.Unknown
}

// AcquireError returns the error of an acquisition that the server refused or did not answer.
func AcquireError(ctx context.Context, name string, err error) error {
	if isReply(err) {
		return refusal(name, err)
	}
	return unanswered(ctx, "acquire "+name, err)
}

// unanswered returns the error of an acquisition that the server did not answer.
func unanswered(ctx context.Context, doing string, err error) error {
	if WaitOver(ctx) {
		return context.Cause(ctx) // the server may be up
	}
	if poolExhausted(err) {
		return fmt.Errorf("%s: %w: %w", doing, lock.ErrOverloaded, err)
	}
	return driver.Down(doing, err)
}

// poolExhausted reports whether all connections of the pool were in use. Nothing was sent, and the server may be up.
func poolExhausted(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted)
}

// WaitOver reports whether the caller's ctx has ended. The client sets ctx's deadline on its socket, too, and there it
// may pass a moment before ctx ends. So WaitOver waits for the end of ctx.
func WaitOver(ctx context.Context) bool {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		<-ctx.Done()
	}
	return ctx.Err() != nil
}

// refusal returns the error for an error reply of the server, with instructions for a repair if there are any.
func refusal(name string, err error) error {
	if strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return fmt.Errorf("key %s in Redis, or one with that prefix, is no lock but something else "+
			"(see TYPE); remove or rename it: %w", name, err)
	}
	if meaning, known := rediserr.Of(err); known {
		return &driver.DownError{
			Server: "redis", Reason: meaning.Reason, Values: rediserr.Values(err), Full: meaning.Full,
			Denied: meaning.Denied(),
		}
	}
	return driver.Down("ask "+name, err)
}

// Denied returns a lock.ErrDenied if the server refused err's request because the user lacks a right, and otherwise
// nil.
func Denied(err error) error {
	if err == nil || errors.Is(err, lock.ErrDenied) {
		return err
	}
	if denied := refusal("redis", err); errors.Is(denied, lock.ErrDenied) {
		return denied
	}
	return nil
}

// Absent returns err, unless it only means that a key does not exist.
func Absent(err error) error {
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// unstarted reports whether no node has begun the request.
func unstarted(err error) bool { return err != nil && (moving(err) || Unsent(err)) }

// moving reports whether a node did nothing because it lacks some of the keys.
func moving(err error) bool {
	return redis.HasErrorPrefix(err, "MOVED") || redis.HasErrorPrefix(err, "ASK") ||
		redis.HasErrorPrefix(err, "TRYAGAIN")
}

// Unsent reports whether the request could not be sent, because there was no connection.
func Unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
