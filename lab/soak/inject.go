package soak

import (
	"context"
	"fmt"
	"time"

	"example.com/stock/stack/wire"
)

// begin does f, and returns what undoes it.
func (s *stand) begin(f Fault) (heal func(context.Context) error, err error) {
	if p := s.links[f.Target]; p != nil {
		return disturb(p, f)
	}
	server := s.stack.Server(f.Target)
	if server == nil {
		return nil, fmt.Errorf("%s: there is no such target", f)
	}
	switch f.Kind {
	case Kill:
		return server.Restart, server.Kill()
	case Restart:
		return server.Restart, server.Stop()
	case Pause:
		return func(context.Context) error { return server.Resume() }, server.Pause()
	}
	return nil, fmt.Errorf("%s: this cannot be done to a process", f)
}

func disturb(p *wire.Proxy, f Fault) (heal func(context.Context) error, err error) {
	switch f.Kind {
	case Cut:
		p.Refuse(true)
		p.Cut()
		return func(context.Context) error { p.Refuse(false); return nil }, nil
	case Silence:
		p.Silence(map[string][]wire.Direction{
			bothWays: {wire.ToServer, wire.ToClient}, toServer: {wire.ToServer}, fromServer: {wire.ToClient},
		}[f.Way]...)
		return func(context.Context) error { p.Silence(); return nil }, nil
	case Slow:
		delay(p, f.By)
		return func(context.Context) error { delay(p, 0); return nil }, nil
	}
	return nil, fmt.Errorf("%s: this cannot be done to a link", f)
}

func delay(p *wire.Proxy, by time.Duration) {
	p.Delay(wire.ToServer, by)
	p.Delay(wire.ToClient, by)
}

// inject does f for as long as it says, or until ctx ends, and always undoes it.
func (r *run) inject(ctx context.Context, f Fault) {
	if !sleep(ctx, f.Later) {
		return
	}
	began := time.Now()
	r.say("%s", f)
	heal, err := r.stand.begin(f)
	if err == nil {
		sleep(ctx, f.For)
		// What was begun is undone even when the soak is to end.
		err = heal(context.WithoutCancel(ctx))
	}
	done := Injected{Kind: f.Kind, Target: f.Target, Text: f.String(), PastLease: f.Past(), AtMS: ms(began.Sub(r.began)), TookMS: ms(time.Since(began))}
	if err != nil {
		done.Error = err.Error()
		r.say("%s: %v", f, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Injected = append(r.report.Injected, done)
}

// sleep waits, and is false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
