// Command peers lets "stock lab grade" grade the locks of two libraries:
//
//	cd tools && go build -o ../bin/peers ./peers && cd .. && bin/stock lab grade --servers redis -- bin/peers redsync
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// A peer is the lock of a library, used as its README shows. busy is true if the lock was not granted in time.
type peer interface {
	acquire(ctx context.Context, key string, lease time.Duration) (token string, busy bool, err error)
	release(ctx context.Context, token string) error
}

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS_ADDR")})
	peers := map[string]peer{
		"redsync":   &redsyncPeer{locks: redsync.New(redsyncpool.NewPool(client)), held: map[string]*redsync.Mutex{}},
		"redislock": &redislockPeer{locks: redislock.New(client), held: map[string]*redislock.Lock{}},
	}
	if len(os.Args) != 2 || peers[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: peers redsync|redislock")
		os.Exit(2)
	}
	lease, err := strconv.Atoi(os.Getenv("LEASE_MS"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "LEASE_MS:", err)
		os.Exit(2)
	}
	serve(os.Stdin, os.Stdout, peers[os.Args[1]], time.Duration(lease)*time.Millisecond)
}

// serve speaks the protocol of "stock lab grade".
func serve(in io.Reader, out io.Writer, p peer, lease time.Duration) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		request := strings.Fields(lines.Text())
		if len(request) != 3 {
			fmt.Fprintln(out, "error a request has three words")
			continue
		}
		if request[0] == "release" {
			if err := p.release(context.Background(), request[2]); err != nil {
				fmt.Fprintln(out, "error", oneLine(err))
			} else {
				fmt.Fprintln(out, "ok")
			}
			continue
		}
		wait, _ := strconv.Atoi(request[2])
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(wait)*time.Millisecond)
		token, busy, err := p.acquire(ctx, request[1], lease)
		cancel()
		switch {
		case busy:
			fmt.Fprintln(out, "busy")
		case err != nil:
			fmt.Fprintln(out, "error", oneLine(err))
		default:
			fmt.Fprintln(out, "ok", token)
		}
	}
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

type redsyncPeer struct {
	locks *redsync.Redsync
	held  map[string]*redsync.Mutex
}

func (p *redsyncPeer) acquire(ctx context.Context, key string, lease time.Duration) (string, bool, error) {
	m := p.locks.NewMutex(key, redsync.WithExpiry(lease))
	var taken *redsync.ErrTaken
	switch err := m.LockContext(ctx); {
	case errors.As(err, &taken), errors.Is(err, redsync.ErrFailed), errors.Is(err, context.DeadlineExceeded):
		return "", true, nil
	case err != nil:
		return "", false, err
	}
	p.held[m.Value()] = m
	return m.Value(), false, nil
}

func (p *redsyncPeer) release(ctx context.Context, token string) error {
	m := p.held[token]
	if m == nil {
		return errors.New("no such token")
	}
	delete(p.held, token)
	_, err := m.UnlockContext(ctx)
	return err
}

type redislockPeer struct {
	locks *redislock.Client
	held  map[string]*redislock.Lock
}

func (p *redislockPeer) acquire(ctx context.Context, key string, lease time.Duration) (string, bool, error) {
	l, err := p.locks.Obtain(ctx, key, lease, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	switch {
	case errors.Is(err, redislock.ErrNotObtained), errors.Is(err, context.DeadlineExceeded):
		return "", true, nil
	case err != nil:
		return "", false, err
	}
	p.held[l.Token()] = l
	return l.Token(), false, nil
}

func (p *redislockPeer) release(ctx context.Context, token string) error {
	l := p.held[token]
	if l == nil {
		return errors.New("no such token")
	}
	delete(p.held, token)
	return l.Release(ctx)
}
