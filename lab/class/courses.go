package class

import (
	"slices"
	"time"
)

// The courses of the scenes. A request that must not go on while the class reads a caption is paused in its instance.

// Points at which the requests of scenes pause.
const (
	beforeWrite = "before_write"
	afterLock   = "after_lock"
)

// buyer sends a request of a customer with a name. pause has the points at which it pauses.
func (p *play) buyer(who string, app int, pause ...string) (id string) {
	return p.fire(shot{who: who, to: p.app(app), pause: pause})
}

// throughout: all requests at once, with one caption while they sell.
func throughout(p *play) {
	p.stage(2, false)
	p.fireAll(p.run, p.requests())
}

// interval is the time between requests that come in turn: one for each instance after an interval, so that they read
// the same version.
const interval = 600 * time.Millisecond

// inTurn: some requests at a time, so that a class sees the stock fall.
func inTurn(p *play) {
	p.stage(2, false)
	for i := range p.requests() {
		if i > 0 && i%len(p.apps) == 0 && !p.sleep(interval) || p.fire(shot{to: p.app(i)}) == "" {
			return
		}
	}
}

// twoBuyers: both read the last unit before either writes.
func twoBuyers(p *play) {
	a, b := p.buyer("A", 0, beforeWrite), p.buyer("B", 1, beforeWrite)
	if !p.until(a, stands) || !p.until(b, stands) || !p.stop(2) {
		return
	}
	p.release(a)
	if !p.until(a, ended) || !p.stop(3) {
		return
	}
	p.release(b)
	p.until(b, ended)
}

// oneLock: the same under a lock. B reads only after A has written.
func oneLock(p *play) {
	a := p.buyer("A", 0, beforeWrite)
	if !p.until(a, stands) {
		return
	}
	b := p.buyer("B", 1, afterLock)
	if !p.until(b, waits) || !p.stop(2) {
		return
	}
	p.release(a)
	if !p.until(a, ended) || !p.until(b, stands) || !p.stop(3) {
		return
	}
	p.release(b)
	p.until(b, ended)
}

// threeInside: a mutex in each instance lets one in, so three have read the same.
func threeInside(p *play) {
	var all []string
	for i := range p.requests() {
		all = append(all, p.fire(shot{to: p.app(i), pause: []string{beforeWrite}}))
	}
	three := func(s *State) bool {
		n := 0
		for _, r := range s.reqs {
			if stands(r.seen) {
				n++
			}
		}
		return n == len(p.apps)
	}
	if p.await(p.ctx.Done(), three) && p.stop(2) {
		p.flow(all)
	}
}

// flow releases each of the requests when it stands, until all have ended.
func (p *play) flow(all []string) {
	for left := slices.Clone(all); len(left) > 0; {
		var ready []string
		ok := p.await(p.ctx.Done(), func(s *State) bool {
			ready = nil
			for _, id := range left {
				if r := s.reqs[id]; r != nil && blocked(r.seen) {
					ready = append(ready, id)
				}
			}
			return len(ready) > 0
		})
		if !ok {
			return
		}
		for _, id := range ready {
			p.release(id) // no error matters: one that has ended is not paused
		}
		left = slices.DeleteFunc(left, func(id string) bool { return slices.Contains(ready, id) })
	}
}

// renewed: the holder works for longer than its lease, which is renewed.
func renewed(p *play) {
	a := p.buyer("A", 0, beforeWrite)
	if !p.until(a, stands) {
		return
	}
	b := p.buyer("B", 1)
	if !p.until(b, waits) || !p.await(p.ctx.Done(), func(s *State) bool { return s.renewals() > 2 }) || !p.stop(2) {
		return
	}
	p.release(a)
	p.until(b, ended)
}

// killedHolder: others wait for the node of a holder that is dead, until its session is over.
func killedHolder(p *play) {
	a := p.buyer("A", 0, beforeWrite)
	if !p.until(a, stands) {
		return
	}
	b, c := p.buyer("B", 1, beforeWrite), p.buyer("C", 2, beforeWrite)
	if !p.until(b, waits) || !p.until(c, waits) || !p.stop(2) {
		return
	}
	p.does(p.app(0), "kill")
	p.stage(3, false)
	if !p.await(p.ctx.Done(), func(s *State) bool { return blocked(s.reqs[b].seen) || blocked(s.reqs[c].seen) }) ||
		!p.stop(4) {
		return
	}
	p.flow([]string{b, c})
}

// frozenHolder: a holder is frozen past its lease, another sells, and the first wakes and writes by the old value.
func frozenHolder(p *play) {
	a := p.buyer("A", 0, beforeWrite)
	if !p.until(a, stands) || !p.stop(2) {
		return
	}
	p.does(p.app(0), "freeze")
	p.stage(3, false)
	if !p.sleep(7*lease/6) || !p.stop(3) {
		return
	}
	b := p.buyer("B", 1, beforeWrite)
	if !p.until(b, stands) || !p.stop(4) {
		return
	}
	p.release(b)
	if !p.until(b, ended) || !p.stop(5) {
		return
	}
	p.does(p.app(0), "wake")
	p.release(a)
	p.until(a, ended)
}

// settling is the time that a waiter of ZooKeeper needs to set its watch.
const settling = time.Second

// crowded: one holds the lock, and all others wait for it at once.
func crowded(p *play) {
	first := p.fire(shot{to: p.app(0), pause: []string{beforeWrite}})
	if !p.until(first, stands) {
		return
	}
	var all []string
	for i := range p.requests() - 1 {
		all = append(all, p.fire(shot{to: p.app(i), pause: []string{beforeWrite}}))
	}
	for _, id := range all {
		if !p.until(id, waits) {
			return
		}
	}
	if !p.sleep(settling) || !p.stop(2) {
		return
	}
	p.release(first)
	if !p.await(p.ctx.Done(), func(s *State) bool {
		return slices.ContainsFunc(all, func(id string) bool { return stands(s.reqs[id].seen) })
	}) || !p.sleep(settling/2) || !p.stop(3) {
		return
	}
	p.flow(all)
}

// dyingMasters: a majority of five masters is the lock. With three dead there is none.
func dyingMasters(p *play) {
	masters := p.masters()
	if len(masters) < 5 {
		return
	}
	a := p.buyer("A", 0, beforeWrite)
	if !p.until(a, stands) {
		return
	}
	b := p.buyer("B", 1)
	for i, stop := range []int{2, 3, 4} {
		if i > 0 {
			p.does(masters[5-i], "kill")
		}
		say := func(s *State) bool { return s.answersFor(a) == 5-i }
		if i == 0 && !p.until(b, waits) || !p.await(p.ctx.Done(), say) || !p.stop(stop) {
			return
		}
	}
	p.does(masters[2], "kill")
	p.stage(5, false)
	if p.sleep(7 * lease / 6) {
		p.release(a)
	}
	p.until(a, ended)
}

// fourGoods: four SKUs have four locks. A retry of the first sells nothing.
func fourGoods(p *play) {
	first := p.fire(shot{to: p.app(0)})
	if !p.until(first, ended) || !p.stop(2) {
		return
	}
	if again := p.fire(shot{to: p.app(0), again: first}); !p.until(again, ended) {
		return
	}
	var all []string
	for good := range 4 {
		all = append(all, p.fire(shot{to: p.app(good + 1), good: good, pause: []string{beforeWrite}}))
	}
	for _, id := range all {
		if !p.until(id, stands) {
			return
		}
	}
	for _, good := range []int{1, 3} {
		all = append(all, p.fire(shot{to: p.app(good - 1), good: good, pause: []string{beforeWrite}}))
		if !p.until(all[len(all)-1], waits) {
			return
		}
	}
	if !p.stop(3) {
		return
	}
	for _, id := range all[:4] {
		p.release(id)
	}
	if p.until(all[4], stands) && p.until(all[5], stands) && p.stop(4) {
		p.flow(all[4:])
	}
}

// sameKey: a second press of the button sends the same key, a second purchase another key.
func sameKey(p *play) {
	first := p.fire(shot{who: "A", to: p.app(0)})
	if !p.until(first, ended) || !p.stop(2) {
		return
	}
	if again := p.fire(shot{who: "A", to: p.app(1), again: first}); !p.until(again, ended) || !p.stop(3) {
		return
	}
	p.buyer("A", 2)
}

// few is how many requests come first to a slow store.
const few = 12

// slowStore: the way to the store is slow, so that a class sees each write: first those of a few requests.
func slowStore(p *play) {
	answered := func(s *State) bool { return s.sums().unanswered == 0 }
	p.does("redis", "delay")
	for i := range few {
		p.fire(shot{to: p.app(i)})
	}
	if p.await(p.ctx.Done(), answered) && p.stop(2) {
		p.fireAll(p.run, p.requests()-few)
		p.await(p.ctx.Done(), answered)
	}
	p.does("redis", "mend")
}
