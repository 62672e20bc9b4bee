package zklock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

var (
	// errAgain means that our node was removed with its session, or deleted by an operator. Then the acquisition is
	// retried.
	errAgain = errors.New("the place in the queue was lost")
	// errNoLock means that a node without a session has the path of the lock. Nobody would ever release it.
	errNoLock = errors.New("the lock's place is taken by a node that is not ephemeral")

	// errNoConnection is safe to show. The reasons are in the log.
	errNoConnection = driver.NewDown("zookeeper", "no-session")
	// errNoIdentity: the server knows no identity of this process, and does not serve it without one.
	errNoIdentity = denied("wants-authentication")
)

// A replyError is the error that the server answered a request with. The request was not executed, and never will be.
type replyError struct {
	path  string // of the node
	right string // that the request needs: create, read, write or delete
	err   error  // of the client library
}

func (e *replyError) Error() string {
	if errors.Is(e.err, zk.ErrNoAuth) {
		return fmt.Sprintf("%s: %v: the right %q is missing", e.path, e.err, e.right)
	}
	return fmt.Sprintf("%s: %v", e.path, e.err)
}

func (e *replyError) Unwrap() error { return e.err }

// Error codes of the protocol for which the client library has no error.
const (
	connectionLoss         = -4
	operationTimeout       = -7
	requestTimeout         = -122
	authenticationRequired = -124
	quotaExceeded          = -125
)

// code returns the number of an error for which the library has no name, or 0. The library has it only in a text.
func code(err error) int {
	number, _ := strconv.Atoi(strings.TrimPrefix(err.Error(), unknownError)) // 0: it is another text
	return number
}

const unknownError = "unknown error: "

// replied converts err, which the library returned for a request, to a replyError. It returns err unchanged if it is
// not the server's reply: after these few errors the request may have been executed or not, or may be executed later.
// Every other error is a reply, also a code that this program does not know. A code that counted as silence would
// repeat a request that the server refuses each time, and search for nodes that it has not created.
func replied(path, right string, err error) error {
	if err == nil {
		return nil
	}
	for _, silence := range []error{
		zk.ErrConnectionClosed, zk.ErrNoServer, zk.ErrClosing, zk.ErrSessionExpired, zk.ErrSessionMoved,
		zk.ErrShortBuffer, zk.ErrAPIError, // a reply that the library cannot parse
	} {
		if errors.Is(err, silence) {
			return err
		}
	}
	switch code(err) {
	case connectionLoss, operationTimeout, requestTimeout: // a proxy may send them
		return err
	}
	return &replyError{path, right, err}
}

// answered reports whether err, or nil, is the server's reply.
func answered(err error) bool {
	var reply *replyError
	return err == nil || errors.As(err, &reply)
}

// unlessGone returns err, or nil if err means that the node does not exist.
func unlessGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// explain converts err to one of the errors of lock.Locker.
func (s *Session) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, lock.ErrHeld):
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("no answer of ZooKeeper: %w", context.Cause(ctx)) // the server may be up
	}
	return s.down(err)
}

// down returns the error for a request that the server refused, which no retry will change, or did not answer. It says
// how to repair that. The reason is shown to clients, so it contains only the configured root. The path of the node is
// in the joined error, and in the log.
func (s *Session) down(err error) error {
	if errors.Is(err, lock.ErrDown) {
		return err
	}
	if !answered(err) && !errors.Is(err, errNoLock) {
		return errors.Join(s.noConnection(), err)
	}
	reply := &replyError{err: err} // errNoLock
	errors.As(err, &reply)
	root := max(s.config.Root, "/")
	var down *driver.DownError
	switch number := code(reply.err); {
	case errors.Is(err, zk.ErrNoAuth):
		down = denied("not-allowed", "root", root, "right", reply.right)
	case errors.Is(err, zk.ErrInvalidACL), number == authenticationRequired:
		down = errNoIdentity
	case number == quotaExceeded:
		down = denied("quota-exceeded", "root", root)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNotEmpty), errors.Is(err, errNoLock):
		down = denied("foreign-nodes", "root", root)
	default:
		text := strings.TrimPrefix(reply.err.Error(), unknownError)
		down = denied("refuses", "code", strings.TrimPrefix(text, "zk: "))
	}
	if errors.Is(err, zk.ErrNoAuth) || errors.Is(err, zk.ErrInvalidACL) {
		s.current.Load().complain(slog.LevelError, "zookeeper does not allow a request: the node belongs to other "+
			"credentials or another client certificate", "error", err, "creator", s.config.CreatorOnly)
	}
	return errors.Join(down, err)
}

// denied returns an error that matches lock.ErrDenied.
func denied(reason string, values ...any) *driver.DownError {
	down := driver.NewDown("zookeeper", reason, values...)
	down.Denied = true
	return down
}

// noConnection returns why there is no usable connection.
func (s *Session) noConnection() *driver.DownError {
	if s.current.Load().now().rejected {
		return errNoIdentity
	}
	return errNoConnection
}

// failed records why a server cannot be used, and logs it. greeted: the server has greeted us.
func (g *generation) failed(addr string, greeted bool, err error) {
	why := "zookeeper cannot be reached" // with TLS 1.3, also a client certificate that the server does not accept
	demands, refuses := code(err) == authenticationRequired, errors.Is(err, zk.ErrAuthFailed)
	switch {
	case demands:
		why = "zookeeper demands authentication: credentials or a client certificate is missing"
	case refuses:
		why = "zookeeper does not accept credentials: its scheme digest may be switched off"
	case greeted:
		why = "zookeeper greets us and closes the connection before it answers a request: " +
			"credentials or a client certificate may be missing, or not accepted"
	}
	if demands || refuses {
		g.mu.Lock()
		g.rejected = true
		g.mu.Unlock()
	}
	g.complain(slog.LevelWarn, why, "server", addr, "error", err)
}

// complain logs a message about the server at most once a minute, or again when the server answers on another
// connection. With wrong credentials it denies every request.
func (g *generation) complain(level slog.Level, message string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over.Err() == nil && time.Since(g.complained) >= time.Minute {
		g.complained = time.Now()
		args = append(args, "credentials", len(g.s.config.Credentials) > 0)
		g.s.config.Logger.Log(context.Background(), level, message, args...)
	}
}
