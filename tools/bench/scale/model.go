package main

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// Costs are what one sale and one step of a store take. They are measured: see measure.go. Times are in µs.
type costs struct {
	Client  price `json:"client"`  // CPU of the load generator for each request
	Nginx   price `json:"nginx"`   // CPU of nginx for each request
	Service price `json:"service"` // CPU of the instance for each request, without the step

	StepCaller  line    `json:"step_caller"`  // CPU of the instance for a step of n sales
	StepStore   line    `json:"step_store"`   // CPU of the store
	StepWait    float64 `json:"step_wait"`    // neither's: the disk, and waking each other
	Trips       float64 `json:"trips"`        // round trips of a step
	TripsLocked float64 `json:"trips_locked"` // of these, while the row is locked
	StoreCores  int     `json:"store_cores"`  // that one store can use; 0: all there are
}

// A line is A + B*n.
type line struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

func (l line) at(n int) float64 { return max(0, l.A+l.B*float64(n)) }

// A price is the CPU of a request: Each, and a share of Wake. Those who are answered by one batch are answered
// together, and come together with their next requests, so a process is woken once for all of them.
type price struct {
	Each float64 `json:"each"`
	Wake float64 `json:"wake"`
}

// in is the price of one of n.
func (p price) in(n int) float64 { return p.Each + p.Wake/float64(max(n, 1)) }

// A setup is what is simulated: callers who each send the next request after the reply to the last one, shared out
// among the instances. All want the same SKU.
type setup struct {
	costs
	instances, callers int
	limit              int     // of a batch
	shared             int     // cores of the one computer that has everything; 0: each part has its own
	own                int     // cores of each instance's computer, which has its share of nginx, and of the store's
	speed              float64 // of all cores: less than 1 if others use them, too
	trip               float64 // of a round trip between computers, µs
	seed               uint64
	seconds            float64
}

// An account is what a simulation found.
type account struct {
	rate     float64 // sold/s
	batch    float64 // sales in each step
	p50, p99 float64 // ms
	row      float64 // share of the time in which the row was locked
	store    float64 // share of its cores that the store used; 0 if all is shared
}

// limitOf is the default of service.MergeOptions.Limit.
const limitOf = 128

// A market is a simulation under way.
type market struct {
	setup
	clock
	random *rand.Rand
	client *process // nil: it is on another computer, and costs nothing here
	store  *process
	stores *computer // nil: everything is on one

	locked  bool
	waiting []func() // for the row
	since   float64  // when it was locked
	held    float64

	from         float64 // when counting begins
	sold         int     // answered
	steps, inAll int     // steps, and the sales in them
	took         []float64
}

// An instance gathers what waits, as package batching does: no timer, one step at a time, and a step has what came
// while the last one was under way.
type instance struct {
	*market
	nginx, service *process
	queue          []asked
	leading        bool
}

// An asked is a request: when it was sent, and by how many who were answered together.
type asked struct {
	at       float64
	together int
}

// simulate runs a setup. A fifth of the time, before the rest, is not counted.
func simulate(s setup) account {
	s.speed = cmp.Or(s.speed, 1)
	m := &market{setup: s, random: rand.New(rand.NewPCG(s.seed, uint64(s.instances)))}
	var one *computer
	computerOf := func(cores int) *computer { return &computer{clock: &m.clock, idle: cores, speed: s.speed} }
	if s.shared > 0 {
		one = computerOf(s.shared)
		m.client = one.process(2)
		m.store = one.process(cmp.Or(s.StoreCores, s.shared))
	} else {
		m.stores = computerOf(s.own)
		m.store = m.stores.process(cmp.Or(s.StoreCores, s.own))
	}
	var gateway *process
	if one != nil {
		gateway = one.process(s.shared)
	}
	for i := range s.instances {
		on := one
		if on == nil {
			on = computerOf(s.own)
		}
		it := &instance{market: m, nginx: gateway, service: on.process(max(s.own, s.shared))}
		if gateway == nil {
			it.nginx = on.process(s.own)
		}
		for caller := i; caller < s.callers; caller += s.instances {
			m.after(m.random.Float64()*1000, func() { it.send(1) }) // they do not begin at the same moment
		}
	}
	end := s.seconds * 1e6
	m.from = end / 5
	m.run(end)
	return m.account(end - m.from)
}

func (m *market) account(counted float64) account {
	a := account{rate: float64(m.sold) / counted * 1e6, row: m.held / counted}
	if m.steps > 0 {
		a.batch = float64(m.inAll) / float64(m.steps)
	}
	if n := len(m.took); n > 0 {
		slices.Sort(m.took)
		a.p50, a.p99 = m.took[n/2]/1000, m.took[n*99/100]/1000
	}
	if m.stores != nil {
		a.store = m.stores.busy / (m.now * float64(cmp.Or(m.StoreCores, m.own)))
	}
	return a
}

// about varies what a request takes, by half in each direction. The mean stays.
func (m *market) about(cpu float64) float64 { return cpu * (0.5 + m.random.Float64()) }

// send is a caller who asks for one unit, as one of so many who were answered together. A half of each price is for the
// way in, and a half for the way out.
func (it *instance) send(together int) {
	a := asked{it.now, together}
	in := func() {
		it.nginx.use(it.about(it.Nginx.in(together)/2), func() {
			it.service.use(it.about(it.Service.in(together)/2), func() {
				it.queue = append(it.queue, a)
				it.lead()
			})
		})
	}
	if it.client == nil {
		it.after(it.trip/2, in)
		return
	}
	it.client.use(it.about(it.Client.in(together)/2), in)
}

// reply is the way back, for one of a batch of n.
func (it *instance) reply(a asked, n int) {
	done := func() {
		if it.now >= it.from {
			it.sold++
			it.took = append(it.took, it.now-a.at)
		}
		it.send(n)
	}
	it.service.use(it.about(it.Service.in(n)/2), func() {
		it.nginx.use(it.about(it.Nginx.in(n)/2), func() {
			if it.client == nil {
				it.after(it.trip/2, done)
				return
			}
			it.client.use(it.about(it.Client.in(n)/2), done)
		})
	})
}

// lead cuts a batch and sells it, unless one is under way.
func (it *instance) lead() {
	if it.leading || len(it.queue) == 0 {
		return
	}
	it.leading = true
	n := min(len(it.queue), it.limit)
	batch := slices.Clone(it.queue[:n])
	it.queue = it.queue[n:]

	it.trips(&sale{
		batch: batch, caller: it.StepCaller.at(n), fixed: max(0, it.StepStore.A), rows: it.StepStore.B * float64(n),
	})
}

// A sale is a step under way.
type sale struct {
	batch               []asked
	done                float64 // round trips
	caller, fixed, rows float64 // CPU in all: the caller's, the store's for the step, the store's for its rows
}

// trips makes the round trips of a step, one after the other. Each takes a share of what does not depend on the size of
// the batch, in the instance and in the store, which both have to wait for a core. The rows are written in the first
// trip with the row locked. A store that locks nothing, because it does one thing at a time anyway, has its own lock
// for that trip.
func (it *instance) trips(s *sale) {
	if s.done == it.Trips {
		it.finish(s.batch)
		return
	}
	first := s.done == it.Trips-max(it.TripsLocked, 1)
	last := s.done == it.Trips-1
	s.done++
	it.service.use(s.caller/it.Trips, func() {
		it.after(it.trip/2, func() {
			if first {
				it.lock(func() { it.written(s, s.fixed/it.Trips+s.rows, last) })
				return
			}
			it.written(s, s.fixed/it.Trips, last)
		})
	})
}

// written does a trip's work in the store. With the last one the row is let go, when the disk has it.
func (it *instance) written(s *sale, cpu float64, last bool) {
	it.store.use(cpu, func() {
		if !last {
			it.after(it.trip/2, func() { it.trips(s) })
			return
		}
		it.after(it.StepWait, func() {
			it.unlock()
			it.after(it.trip/2, func() { it.trips(s) })
		})
	})
}

func (it *instance) finish(batch []asked) {
	if it.now >= it.from {
		it.steps++
		it.inAll += len(batch)
	}
	it.leading = false
	for _, a := range batch {
		it.reply(a, len(batch))
	}
	it.lead()
}

// lock waits for the row, first come first served.
func (m *market) lock(then func()) {
	if m.locked {
		m.waiting = append(m.waiting, then)
		return
	}
	m.locked, m.since = true, m.now
	then()
}

func (m *market) unlock() {
	m.held += max(0, m.now-max(m.since, m.from))
	m.locked = false
	if len(m.waiting) > 0 {
		next := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.lock(next)
	}
}
