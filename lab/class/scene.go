package class

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.com/stock/loadtest"
)

// A scene is a run with a scripted course: courses.go has them. The texts under its name have its title and its stops,
// at each of which the class reads a caption until the teacher goes on.
type scene struct {
	name, key string
	stops     int
	sales     int64 // with which it ends
	race      bool  // it ends with a lost update
	plan      RunPlan
	course    func(*play)
}

// scenes returns the scenes in the order of the hour in docs/class.md, which "next scene" follows.
func scenes() []scene {
	plan := func(strategy string, stock int64, requests int) RunPlan {
		return RunPlan{
			Strategy: strategy, Store: "redis", Stock: stock, Requests: requests, Instances: min(requests, 3),
		}
	}
	slow := plan("none", 100, 30)
	slow.ThinkMS = 1500 // three sales every 0.6 s, each of 1.5 s: some seven at a time, for some 7 s
	alone := plan("local-mutex", 100, 30)
	alone.ThinkMS, alone.Instances = 150, 1
	fenced := plan("redis-watchdog", 10, 2)
	fenced.IgnoreLoss = true
	unfenced := fenced
	unfenced.Unfenced = true
	goods := plan("redis-watchdog", 10, 8)
	goods.Goods = 4
	const race, right = true, false
	return []scene{
		{"no_lock", "s", 3, 30, race, slow, inTurn},
		{"two_buyers", "a", 4, 2, race, plan("none", 1, 2), twoBuyers},
		{"one_lock", "g", 4, 1, right, plan("redis-watchdog", 1, 2), oneLock},
		{"mutex_one", "d", 3, 30, right, alone, throughout},
		{"mutex_three", "5", 3, 30, race, plan("local-mutex", 100, 30), threeInside},
		{"watchdog", "l", 3, 2, right, plan("redis-watchdog", 10, 2), renewed},
		{"killed_holder", "z", 5, 2, right, plan("zk-ephemeral", 10, 3), killedHolder},
		{"frozen_unfenced", "h", 6, 2, race, unfenced, frozenHolder},
		{"frozen_fenced", "j", 6, 1, right, fenced, frozenHolder},
		{"herd", "x", 4, 30, right, plan("zk-ephemeral", 100, 30), crowded},
		{"queue", "c", 4, 30, right, plan("zk-sequential", 100, 30), crowded},
		{"masters", "m", 5, 0, right, plan("redlock", 10, 2), dyingMasters},
		{"four_goods", "4", 5, 7, right, goods, fourGoods},
		{"same_key", "6", 4, 2, right, plan("redis-watchdog", 10, 3), sameKey},
		{"atomic", "y", 3, 50, right, plan("atomic", 50, 100), slowStore},
		{"merged", "u", 3, 50, right, plan("merged", 50, 100), slowStore},
	}
}

func sceneOf(name string) (scene, bool) {
	all := scenes()
	i := slices.IndexFunc(all, func(s scene) bool { return s.name == name })
	if i < 0 {
		return scene{}, false
	}
	return all[i], true
}

// A play is a running scene. After its end its steps do nothing.
type play struct {
	*Class
	ctx   context.Context
	run   int
	stops int
}

// fire sends a request of the scene's run.
func (p *play) fire(s shot) (id string) {
	s.run = p.run
	return p.Class.fire(s)
}

// Play begins a scene, and ends the running one.
func (c *Class) Play(name string) error {
	s, ok := sceneOf(name)
	if !ok {
		return wrong("scene", "not_listed")
	}
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
		(&play{c, playing.ctx, run, s.stops}).all(s.course)
		c.leave(run)
	})
	return nil
}

// all plays a scene from its first stop to its last, at which all is over.
func (p *play) all(course func(*play)) {
	if !p.stop(1) {
		return
	}
	course(p)
	if p.await(p.ctx.Done(), func(s *State) bool { return s.sums().unanswered == 0 }) {
		p.stage(p.stops, false)
	}
}

// stage shows the caption of a stop.
func (p *play) stage(n int, waits bool) {
	p.note(RunEvent{Kind: stopped, Run: p.run, N: n, Of: p.stops, On: waits})
}

// autoStop is the length of a stop if scenes play by themselves: a caption of at most 12 words is read.
const autoStop = 4 * time.Second

// stop shows the caption of a stop, and waits until the teacher goes on. It returns false if the scene has ended.
func (p *play) stop(n int) bool {
	select {
	case <-p.onward: // it came after the stop before this one was over
	default:
	}
	p.stage(n, true)
	timer := time.NewTimer(p.o.scaled(autoStop))
	defer timer.Stop()
	timed := timer.C
	if !p.auto.Load() {
		timed = nil
	}
	select {
	case <-p.onward:
	case <-timed:
	case <-p.ctx.Done():
	}
	p.stage(n, false)
	return p.ctx.Err() == nil
}

// Onward lets a scene go on that waits at a stop.
func (c *Class) Onward() {
	select {
	case c.onward <- struct{}{}:
	default:
	}
}

// Auto makes scenes play by themselves, or wait at each stop.
func (c *Class) Auto(on bool) {
	c.auto.Store(on)
	c.note(RunEvent{Kind: autoPlay, On: on})
	if on {
		c.Onward()
	}
}

// raise undoes all faults: a scene that is interrupted leaves a server dead, and the next one needs it.
func (c *Class) raise() {
	names := c.masters()
	for kind := range c.link {
		names = append(names, string(kind))
	}
	for _, app := range c.apps {
		names = append(names, app.Name)
	}
	for _, name := range names {
		switch c.stateOf(name) {
		case "killed":
			_ = c.Fault(name, "start")
		case "slow", "cut":
			_ = c.Fault(name, "mend")
		case "frozen":
			_ = c.Fault(name, "wake")
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
func ended(t *token) bool   { return t.Phase == "done" }
func stands(t *token) bool  { return t.Point != "" }
func waits(t *token) bool   { return t.Phase == "waits" }
func blocked(t *token) bool { return ended(t) || stands(t) }

func (p *play) release(id string) { _ = p.Go(id) }
func (p *play) app(i int) string  { return p.apps[i%len(p.apps)].Name }

// does applies a fault to a server, unless the scene has ended.
func (p *play) does(name, do string) {
	if p.ctx.Err() == nil {
		_ = p.Fault(name, do)
	}
}

// current returns the current run and its plan. The run is 0 before the first.
func (c *Class) current() (run int, plan RunPlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run, c.plan
}

// requests returns how many requests the scene's plan has.
func (p *play) requests() int {
	_, plan := p.current()
	return plan.Requests
}

// masters returns the names of Redlock's masters: all Redis servers but the first.
func (c *Class) masters() (names []string) {
	for i := 2; i <= 6; i++ {
		if name := fmt.Sprintf("redis-%d", i); c.stack.Server(name) != nil {
			names = append(names, name)
		}
	}
	return names
}
