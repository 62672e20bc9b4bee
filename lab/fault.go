package lab

import (
	"time"

	"example.com/stock/stack/wire"
)

// Freeze stops an instance in mid-step (SIGSTOP), as a long garbage collection, a swapping host or a suspended virtual machine does. It
// returns what lets it go on, which the end of the case does too.
func (b *Bench) Freeze(app *App) (thaw func()) {
	from := time.Now()
	b.Must("freeze "+app.Name, app.Pause())
	app.frozen = true
	return func() {
		b.Must("thaw "+app.Name, app.Resume())
		app.frozen = false
		b.Interval(app.Name, Fault, "", from, "%s was frozen (SIGSTOP) for %v", app.Name, time.Since(from).Round(time.Millisecond))
	}
}

// Kill ends an instance without a word (SIGKILL), and returns when that was. The next case that wants it gets it restarted.
func (b *Bench) Kill(app *App) time.Time {
	at := time.Now()
	b.Must("kill "+app.Name, app.Kill())
	b.Interval(app.Name, Fault, "", at, "%s is killed (SIGKILL)", app.Name)
	b.dead(app, at)
	return at
}

// FreezeFor is Freeze once for the benches of Together: it is drawn in the timelines of all.
func FreezeFor(benches []*Bench, app *App) (thaw func()) {
	from := time.Now()
	thawOnce := benches[0].Freeze(app)
	return func() {
		thawOnce()
		for _, b := range benches[1:] {
			b.Interval(app.Name, Fault, "", from, "%s was frozen (SIGSTOP) for %v", app.Name, time.Since(from).Round(time.Millisecond))
		}
	}
}

// KillFor is Kill once for the benches of Together.
func KillFor(benches []*Bench, app *App) time.Time {
	at := benches[0].Kill(app)
	for _, b := range benches[1:] {
		b.event(Event{At: at, Lane: app.Name, Kind: Fault}, "%s is killed (SIGKILL)", app.Name)
		b.dead(app, at)
	}
	return at
}

// dead draws the time from a kill to the end of the case.
func (b *Bench) dead(app *App, since time.Time) {
	b.Defer(func() { b.Interval(app.Name, Fault, "", since, "%s is dead", app.Name) })
}

// Proxy stands between instances and a server. Instances reach the server through it that were started with Via of the same need. What is
// done to it is undone at the end of the case.
func (b *Bench) Proxy(need Need) *wire.Proxy {
	p, err := b.stand.proxy(need)
	b.Must("open a proxy", err)
	b.Defer(func() {
		p.Refuse(false)
		p.Silence()
		p.Delay(wire.ToServer, 0)
		p.Delay(wire.ToClient, 0)
	})
	return p
}

// Via is what Apps must be given for instances that reach the server of that need through the proxy.
func (b *Bench) Via(need Need) string { return via(need, b.Proxy(need).Addr()) }

// Trap sets a trap on the wire, which is taken away at the end of the case.
func (b *Bench) Trap(p *wire.Proxy, t wire.Trap) *wire.Snare {
	s := p.Set(t)
	b.Defer(s.Release)
	return s
}

// Sprung waits until a trap has sprung.
func (b *Bench) Sprung(s *wire.Snare, what Text) {
	b.Eventually("on the wire: "+what.EN, func() bool {
		select {
		case <-s.Sprung():
			return true
		default:
			return false
		}
	})
	b.Note("wire", "%s", what)
}
