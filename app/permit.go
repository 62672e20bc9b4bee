package app

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/lock/driver"
)

// permitEvery is the pause between two looks at the servers of a strategy, and between two checks of a denied one.
const permitEvery = time.Second

// A permit remembers whether the servers of a strategy permit what its lock needs. It checks that after they have come
// up, until there is a result, and again while they deny it. A right that is revoked later is named by the requests
// that fail.
type permit struct {
	name  string
	needs []*health.Backend
	check func(context.Context) error

	mu     sync.Mutex
	denied error // a driver.DownError; nil: permitted, or not known
	known  bool
}

// look checks if that is due, and reports whether denied has changed.
func (p *permit) look(ctx context.Context) (denied error, changed bool) {
	for _, need := range p.needs {
		if need.Err() != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.known = false // it may come back as another server, with other rights
			return p.denied, false
		}
	}
	p.mu.Lock()
	before, due := p.denied, !p.known || p.denied != nil
	p.mu.Unlock()
	if !due {
		return before, false
	}
	short, cancel := context.WithTimeout(ctx, health.Timeout)
	defer cancel()
	err := p.check(short)
	down, _ := errors.AsType[*driver.DownError](err) // the rest of err may have addresses, and is not for clients
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.denied, p.known = nil, true
	case down != nil && down.Denied:
		p.denied, p.known = down, true
	}
	return p.denied, (before == nil) != (p.denied == nil)
}

func (p *permit) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.denied
}

// checkPermits looks at all permits at once, and returns when each has its first result or has failed to get one. Then
// each is looked at until the probes end.
func (a *App) checkPermits() {
	var all sync.WaitGroup
	for _, p := range a.permits {
		all.Go(func() { a.lookAt(p) })
	}
	all.Wait()
	for _, p := range a.permits {
		a.probes.Go(func() {
			for {
				if err := driver.Sleep(a.probing, permitEvery); err != nil {
					return
				}
				a.lookAt(p)
			}
		})
	}
}

func (a *App) lookAt(p *permit) {
	switch denied, changed := p.look(a.probing); {
	case !changed:
	case denied != nil:
		a.log.Error("a server does not permit what a strategy needs", "strategy", p.name,
			"reason", words.Of(denied, handler.Said).EN)
	default:
		a.log.Info("the servers permit what a strategy needs", "strategy", p.name)
	}
}

// A permitted is a server that a strategy needs. It is down for this strategy while the server denies what the strategy
// needs.
type permitted struct {
	*health.Backend
	*permit
}

func (p permitted) Err() error {
	if err := p.Backend.Err(); err != nil {
		return err
	}
	return p.err()
}

// Up returns a ctx that ends when the server goes down. It has ended while the strategy is not permitted.
func (p permitted) Up() context.Context {
	up := p.Backend.Up()
	if err := p.Err(); err != nil && up.Err() == nil {
		ended, end := context.WithCancelCause(up)
		end(err)
		return ended
	}
	return up
}
