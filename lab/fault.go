package lab

import (
	"net/http"
	"net/url"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// Freeze suspends an instance (SIGSTOP), as a long garbage collection, a swapping host or a suspended virtual machine
// would. thaw or the end of the case resumes it.
func (b *Testbed) Freeze(app *App) (thaw func()) { return FreezeFor([]*Testbed{b}, app) }

// FreezeFor is Freeze for the testbeds of Together. It is recorded in all their timelines.
func FreezeFor(beds []*Testbed, app *App) (thaw func()) {
	from := time.Now()
	beds[0].Must("freeze "+app.Name, app.Pause())
	app.frozen = true
	return func() {
		beds[0].Must("thaw "+app.Name, app.Resume())
		app.frozen = false
		for _, b := range beds {
			b.fault(app, from, say("says.frozen", "app", app.Name, "for", time.Since(from)))
		}
	}
}

// Kill ends an instance at once (SIGKILL), and returns the time. The instance is restarted for the next case that uses
// it.
func (b *Testbed) Kill(app *App) time.Time { return KillFor([]*Testbed{b}, app) }

// KillFor is Kill for the testbeds of Together.
func KillFor(beds []*Testbed, app *App) time.Time {
	at := time.Now()
	beds[0].Must("kill "+app.Name, app.Kill())
	for _, b := range beds {
		b.killed(app, at, say("says.killed", "app", app.Name))
		b.Defer(func() { b.killed(app, at, say("says.dead", "app", app.Name)) })
	}
	return at
}

// fault records a fault of an instance from from until now.
func (b *Testbed) fault(app *App, from time.Time, said Text) {
	b.timeline.Record(CaseEvent{At: from, Until: time.Now(), Lane: app.Name, Kind: Fault}, said)
}

// killed is fault for a process that has ended.
func (b *Testbed) killed(app *App, at time.Time, said Text) {
	b.timeline.Record(CaseEvent{At: at, Until: time.Now(), Lane: app.Name, Kind: Fault, Point: Killed}, said)
}

// Evict evicts the holder of the case's lock, as an operator does, through an instance.
func (b *Testbed) Evict(through *App) {
	var reply struct{ Fence uint64 }
	path := "/v1/locks/" + b.Strategy.Name + "/" + url.PathEscape(b.SKU)
	b.Must("evict", through.admin.Call(b.Ctx, http.MethodDelete, path, nil, &reply))
	b.note("lock", say("says.evicted", "fence", reply.Fence))
}

// Proxy returns the proxy between instances and a server. Instances that were started with Via of the same need use it.
// Changes to it are undone at the end of the case.
func (b *Testbed) Proxy(need Need) *wire.Proxy {
	p, err := b.fleet.proxy(need)
	b.Must("open a proxy", err)
	b.Defer(p.Mend)
	return p
}

// ProxyTo opens a proxy before the server at addr, for this case alone.
func (b *Testbed) ProxyTo(addr string, protocol wire.Protocol) *wire.Proxy {
	p, err := wire.Listen(addr, protocol)
	b.Must("open a proxy before "+addr, err)
	b.Defer(func() { _ = p.Close() })
	return p
}

// Via returns the environment variable for Apps that makes instances reach the server of that need through the proxy.
func (b *Testbed) Via(need Need) string {
	return stack.Setting(server.Kind(need), stack.Through(b.Proxy(need), b.Server(need)))
}

// Trap sets a trap on the wire, and removes it at the end of the case.
func (b *Testbed) Trap(p *wire.Proxy, t wire.Trap) *wire.Snare {
	s := p.Set(t)
	b.Defer(s.Release)
	return s
}

// Sprung waits until a trap has sprung, and records that in the text of key and pairs; see Note.
func (b *Testbed) Sprung(s *wire.Snare, key string, pairs ...any) {
	what := b.say(key, pairs...)
	b.Eventually("on the wire: "+what.EN, func() bool {
		select {
		case <-s.Sprung():
			return true
		default:
			return false
		}
	})
	b.note("wire", what)
}
