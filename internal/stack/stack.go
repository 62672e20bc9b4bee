// Package stack starts and stops a demonstration on this computer: the servers of package server, instances of stock
// and of the order service, and nginx or HAProxy in front of them. If nginx is missing, a small proxy stands in.
package stack

import (
	"context"
	"errors"

	"example.com/stock/lock/locktest/server"
)

// errOther cancels the other starts when one fails. That one's error is returned.
var errOther = errors.New("another server did not start")

// A Stack is a set of servers with a beginning and an end. It is safe for concurrent use. [server.Stack.Stop] stops
// nginx first, then the instances, then the backends.
type Stack struct {
	*server.Stack
	options Options
}

// Options configure a Stack. The zero value means no backend.
type Options struct {
	server.Options

	Affinity bool // nginx sends all requests for a SKU to the same instance; see deploy/nginx.conf

	Binary string // the stock program; default: os.Executable()

	// Env has variables (KEY=value) for every instance, after the addresses of the backends. STOCK_* of this process
	// are not passed on.
	Env []string

	// AnyPort makes instances avoid the usual ports. A program of the user may listen there while an instance is dead,
	// because the reservation excludes only other stacks.
	AnyPort bool
}

// Start is [server.Start] for a Stack.
func Start(ctx context.Context, o Options) (*Stack, error) {
	servers, err := server.Start(ctx, o.Options)
	if err != nil {
		return nil, err
	}
	return &Stack{servers, o}, nil
}
