package class

import (
	"context"
	"slices"
	"time"

	"example.com/stock/loadtest"
)

// A scene is a run with a scripted course. The texts under its name have its title and its point.
type scene struct {
	name, key string
	plan      RunPlan
	course    func(*play)
}

// scenes returns the scenes in the order of the hour in docs/class.md, which "next scene" follows.
func scenes() []scene {
	everybody := func(name, key, strategy string, stock int64, requests, think, instances int) scene {
		return scene{name, key, RunPlan{
			Strategy: strategy, Store: "redis", Stock: stock, Requests: requests, ThinkMS: think, Instances: instances,
		}, allAtOnce}
	}
	frozen := func(name, key string, unfenced bool) scene {
		return scene{name, key, RunPlan{
			Strategy: "redis-setnx", Store: "redis", Stock: 10, Requests: 2, ThinkMS: 1000, Unfenced: unfenced,
			IgnoreLoss: true,
		}, frozenHolder}
	}
	one := func(name, key, strategy string, requests, think int, course func(*play)) scene {
		return scene{name, key, RunPlan{
			Strategy: strategy, Store: "redis", Stock: 10, Requests: requests, ThinkMS: think,
		}, course}
	}
	return []scene{
		// Three sales every 0.6 s, each of 1.5 s: some seven at a time, for some 7 s.
		{"no_lock", "s", RunPlan{Strategy: "none", Store: "redis", Stock: 100, Requests: 30, ThinkMS: 1500}, inTurn},
		{"two_buyers", "a", RunPlan{Strategy: "none", Store: "redis", Stock: 1, Requests: 2}, twoBuyers},
		everybody("mutex_one", "d", "local-mutex", 100, 30, 150, 1),
		everybody("mutex_three", "g", "local-mutex", 100, 30, 500, 3),
		one("watchdog", "l", "redis-watchdog", 2, 5000, allAtOnce),
		one("killed_holder", "z", "redis-watchdog", 6, 1500, killedHolder),
		frozen("frozen_fenced", "j", false),
		frozen("frozen_unfenced", "h", true),
		everybody("herd", "x", "zk-ephemeral", 100, 20, 200, 3),
		everybody("queue", "c", "zk-sequential", 100, 20, 200, 3),
		one("redis_dies", "m", "redis-watchdog", 8, 400, redisDies),
		one("same_key", "4", "redis-watchdog", 3, 300, sameKey),
		everybody("atomic", "y", "atomic", 50, 100, 0, 3),
		everybody("merged", "u", "merged", 50, 100, 0, 3),
	}
}

// A play is a running scene. After its end its steps do nothing.
type play struct {
	*Class
	ctx context.Context
	run int
}

// fire sends a request of the scene's run.
func (p *play) fire(s shot) (id string) {
	s.run = p.run
	return p.Class.fire(s)
}

// Play begins a scene, and ends the running one.
func (c *Class) Play(name string) error {
	all := scenes()
	i := slices.IndexFunc(all, func(s scene) bool { return s.name == name })
	if i < 0 {
		return wrong("scene", "not_listed")
	}
	s := all[i]
	s.plan.Scene = s.name
	s.plan.ThinkMS = int(c.o.scaled(time.Duration(s.plan.ThinkMS) * time.Millisecond).Milliseconds())
	c.stopScene()
	if c.pausedAll() {
		_ = c.Pause(false)
	}
	c.raise()
	c.awaitReady(s.plan)
	run, err := c.begin(c.ctx, s.plan)
	if err != nil {
		return err
	}
	playing := begun(c.ctx)
	c.mu.Lock()
	c.scene = playing
	c.left++ // the run has no final verdict before its scene has ended
	c.mu.Unlock()
	playing.on.Add(1)
	c.owned.Go(func() {
		defer playing.on.Done()
		defer playing.end()
		p := &play{c, playing.ctx, run}
		if p.sleep(readingTime) { // the class reads what is going to happen
			s.course(p)
		}
		c.leave(run)
	})
	return nil
}

// raise undoes all faults: a scene that is interrupted leaves a server dead, and the next one needs it.
func (c *Class) raise() {
	for kind := range c.link {
		switch name := string(kind); c.stateOf(name) {
		case "killed":
			_ = c.Fault(name, "start")
		case "slow", "cut":
			_ = c.Fault(name, "mend")
		}
	}
	for _, app := range c.apps {
		switch c.stateOf(app.Name) {
		case "frozen":
			_ = c.Fault(app.Name, "wake")
		case "killed":
			_ = c.Fault(app.Name, "start")
		}
	}
}

// awaitReady waits at most 8 s until each running instance can sell as planned. An instance that was frozen needs time,
// because it has lost its sessions.
func (c *Class) awaitReady(p RunPlan) {
	ctx, cancel := context.WithTimeout(c.ctx, 8*time.Second)
	defer cancel()
	for _, app := range c.apps {
		for c.stateOf(app.Name) != "killed" {
			list, err := c.clients[app.Name].Strategies(ctx)
			if err == nil {
				s, _ := loadtest.Find(list, p.Strategy)
				if s.Available && s.DownStores[p.Store] == "" {
					break
				}
			}
			if loadtest.Sleep(ctx, 50*time.Millisecond) != nil {
				return
			}
		}
	}
}

// stopScene ends the running scene or rate, and waits for its end.
func (c *Class) stopScene() {
	c.mu.Lock()
	scene := c.scene
	c.mu.Unlock()
	scene.stop()
}

// until waits until so returns true for a token, or the scene ends.
func (p *play) until(id string, so func(*token) bool) bool {
	return p.await(p.ctx.Done(), func(s *State) bool {
		r := s.reqs[id]
		return r != nil && so(r.seen)
	})
}

// sleep waits, scaled to the pace of the class, and returns false if the scene has ended.
func (p *play) sleep(d time.Duration) bool { return loadtest.Sleep(p.ctx, p.o.scaled(d)) == nil }

// Conditions of tokens for which scenes wait.
func ended(t *token) bool         { return t.Phase == "done" }
func stands(t *token) bool        { return t.Point != "" }
func thinking(t *token) bool      { return t.Phase == "thinks" }
func (p *play) release(id string) { _ = p.Go(id) }
func (p *play) app(i int) string  { return p.apps[i].Name }

// does applies a fault to a server, unless the scene has ended.
func (p *play) does(name, do string) {
	if p.ctx.Err() == nil {
		_ = p.Fault(name, do)
	}
}

// readingTime is the time before the requests of a scene. If they come in turn, it is one for each instance after an
// interval, so that they read the same version.
const (
	readingTime = 2500 * time.Millisecond
	interval    = 600 * time.Millisecond
)

// allAtOnce: all requests at once.
func allAtOnce(p *play) { p.fireAll(p.run, p.planOf().Requests) }

// inTurn: some requests at a time, so that a class sees the stock fall.
func inTurn(p *play) {
	for i := range p.planOf().Requests {
		if i > 0 && i%len(p.apps) == 0 && !p.sleep(interval) || p.fire(shot{}) == "" {
			return
		}
	}
}

// twoBuyers: both read the last unit before either writes.
func twoBuyers(p *play) {
	a := p.fire(shot{who: "A", to: p.app(0), pause: []string{"before_write"}})
	b := p.fire(shot{who: "B", to: p.app(1), pause: []string{"before_write"}})
	if !p.until(a, stands) || !p.until(b, stands) {
		return
	}
	if !p.sleep(3 * time.Second) {
		return
	}
	p.release(a)
	if !p.until(a, ended) || !p.sleep(2*time.Second) {
		return
	}
	p.release(b)
	p.until(b, ended)
}

// frozenHolder: a holder is frozen past its lease, another sells, and the first wakes and writes by the old value.
func frozenHolder(p *play) {
	a := p.fire(shot{who: "A", to: p.app(0)})
	if !p.until(a, thinking) {
		return
	}
	p.does(p.app(0), "freeze")
	if !p.sleep(7 * lease / 6) {
		return
	}
	b := p.fire(shot{who: "B", to: p.app(1)})
	if !p.until(b, ended) || !p.sleep(1500*time.Millisecond) {
		return
	}
	p.does(p.app(0), "wake")
	p.until(a, ended)
}

// sameKey: a second press of the button sends the same key, a second purchase another key.
func sameKey(p *play) {
	buy := func(i int, again string) (id string, ok bool) {
		id = p.fire(shot{who: "A", to: p.app(i), again: again})
		return id, p.until(id, ended) && p.sleep(2*time.Second)
	}
	first, ok := buy(0, "")
	if !ok {
		return
	}
	if _, ok := buy(1, first); !ok {
		return
	}
	_, _ = buy(2, "")
}

// killedHolder: others wait for the lease of a holder that is dead.
func killedHolder(p *play) {
	a := p.fire(shot{who: "A", to: p.app(0)})
	if !p.until(a, thinking) {
		return
	}
	for range p.planOf().Requests - 1 {
		p.fire(shot{to: p.app(1)})
	}
	if !p.sleep(500 * time.Millisecond) {
		return
	}
	p.does(p.app(0), "kill")
	if p.sleep(2 * lease) {
		p.does(p.app(0), "start")
	}
}

// redisDies: while Redis is dead nothing can be sold; afterwards sales continue.
func redisDies(p *play) {
	p.fireAll(p.run, p.planOf().Requests)
	if !p.await(p.ctx.Done(), func(s *State) bool { return s.tally.Writes >= 2 }) {
		return
	}
	p.does("redis", "kill")
	if !p.sleep(3 * time.Second) {
		return
	}
	p.does("redis", "start")
	ok := p.await(p.ctx.Done(), func(*State) bool { return p.stateOf("redis") == "up" })
	if !ok || !p.sleep(2*time.Second) {
		return
	}
	p.awaitReady(p.planOf()) // the instances find their server again
	p.fireAll(p.run, 4)
}

func (c *Class) planOf() RunPlan {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plan
}
