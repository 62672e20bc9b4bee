package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// The library has no contexts: a request returns when the server has answered or the connection has broken. So
// requests have two layers here. ask returns when ctx ends. Below it, retry repeats a request after a broken
// connection. Functions that use retry check their ctx only between two requests, and so may block for longer: call
// them inside ask.

// tries is how often a step is tried. A step is repeated if a connection broke or a folder was removed. Each try first
// waits for a connection.
const tries = 5

// ask calls work, which waits for the library, in a goroutine, and returns its result. If ctx ends and the server
// answers, ask waits up to cleanup longer, so that work can clean up. late, if not nil, gets a result that arrives
// after ask has returned. Work that ask no longer waits for continues until the server answers or the connection
// breaks, and its request may still be executed: the library sends queued requests when it has connected again.
func ask[T any](
	ctx context.Context, g *generation, cleanup time.Duration, work func() (T, error), late func(T),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if !g.beginRequest() {
		return none, context.Cause(g.over)
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		defer g.requests.Done()
		value, err := work()
		select {
		case answers <- answer{value, err}:
		case <-gone:
			if late != nil {
				late(value)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	defer close(gone)
	if cleanup > 0 && g.now().usable() {
		timer := time.NewTimer(cleanup)
		defer timer.Stop()
		select {
		case a := <-answers:
			return a.value, a.err
		case <-timer.C:
		}
	}
	return none, context.Cause(ctx)
}

// beginRequest counts work that is about to use the library. It returns false if the generation is closed.
func (g *generation) beginRequest() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.requests.Add(1)
	}
	return !g.closed
}

// retry makes a request that may be executed twice, and repeats it after a broken connection. path and right are for
// the error; see replyError.
func retry[T any](
	ctx context.Context, g *generation, path, right string, request func() (T, error),
) (value T, err error) {
	for range tries {
		if ctx.Err() != nil {
			return value, context.Cause(ctx)
		}
		value, err = request()
		if err = replied(path, right, err); answered(err) {
			return value, err
		}
		if err := g.waitForLink(ctx); err != nil {
			return value, err
		}
	}
	return value, fmt.Errorf("%w: %w", errOutage, err)
}

func (g *generation) waitForLink(ctx context.Context) error {
	for {
		changed := g.s.changed.next()
		if g.now().link != nil {
			return nil
		}
		select {
		case <-changed:
		case <-g.over.Done():
			return context.Cause(g.over)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A replyError is the error that the server answered a request with. The request was not executed, and never will be.
type replyError struct {
	path  string // of the node
	right string // that the request needs: create, read, write, delete or admin
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
	text, _ := strings.CutPrefix(err.Error(), "unknown error: ")
	number, _ := strconv.Atoi(text) // 0: it is another text
	return number
}

// replied converts err, which the library returned for a request, to a replyError. It returns err unchanged if it is
// not the server's reply: after these few errors the request may have been executed or not, or may be executed later.
// Every other error is a reply, also a code that this program does not know. A code that counted as silence would
// repeat a request that the server refuses each time, and search for nodes that it has not created.
func replied(path, right string, err error) error {
	if err == nil {
		return nil
	}
	for _, silence := range []error{
		errOutage, // of link.Write
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

// repliedAll is replied for a transaction. There is one right for each of its requests.
func repliedAll(path string, rights []string, done []zk.MultiResponse, err error) error {
	failed := slices.IndexFunc(done, func(r zk.MultiResponse) bool { return r.Error != nil })
	return replied(path, rights[min(max(0, failed), len(rights)-1)], err)
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

func (g *generation) children(ctx context.Context, path string) ([]string, error) {
	return retry(ctx, g, path, "read", func() ([]string, error) {
		names, _, err := g.conn.Children(path)
		return names, err
	})
}

func (g *generation) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	data, err = retry(ctx, g, path, "read", func() ([]byte, error) {
		var data []byte
		data, stat, err = g.conn.Get(path)
		return data, err
	})
	return data, stat, err
}

// read reads a contender's node, and takes its data for the name of its owner.
func (g *generation) read(ctx context.Context, dir, name string) (node, error) {
	data, stat, err := g.get(ctx, dir+"/"+name)
	if err != nil {
		return node{}, err
	}
	return node{
		dir: dir, name: name, owner: string(data), czxid: stat.Czxid, clock: stat.Ctime, session: stat.EphemeralOwner,
	}, nil
}

// makeFolder makes path and its missing parents. They are containers, which the server removes some time (by default up
// to a minute) after the deletion of their last child.
func (g *generation) makeFolder(ctx context.Context, path string) error {
	for range tries {
		_, err := retry(ctx, g, path, "create", func() (string, error) {
			return g.conn.CreateContainer(path, nil, zk.FlagContainer, g.s.acl())
		})
		if !errors.Is(err, zk.ErrNoNode) {
			if errors.Is(err, zk.ErrNodeExists) {
				return nil
			}
			return err
		}
		parent := path[:strings.LastIndexByte(path, '/')]
		if parent == "" {
			return err
		}
		if err := g.makeFolder(ctx, parent); err != nil {
			return err
		}
	}
	return zk.ErrNoNode
}
