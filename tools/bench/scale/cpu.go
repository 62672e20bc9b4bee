package main

import "container/heap"

// A clock is the time of a simulation, in µs, and what is to happen. Events of the same time happen in the order in
// which they were planned, so a run is the same whenever it has the same seed.
type clock struct {
	now    float64
	events events
	count  int
}

type event struct {
	at    float64
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	old := *e
	last := old[len(old)-1]
	*e = old[:len(old)-1]
	return last
}

// after plans do.
func (c *clock) after(delay float64, do func()) {
	c.count++
	heap.Push(&c.events, event{c.now + delay, c.count, do})
}

// run lets time pass until end.
func (c *clock) run(end float64) {
	for len(c.events) > 0 && c.events[0].at <= end {
		next := heap.Pop(&c.events).(event)
		c.now = next.at
		next.do()
	}
	c.now = end
}

// slice is how long a process keeps a core while others wait, in µs: what Linux grants on two CPUs (base_slice_ns). A
// process that is woken waits for that long, at worst; and one that has its turn works off what has come meanwhile. So
// requests reach an instance in bursts, which makes its batches larger than if every request had a turn of its own.
const slice = 1400

// A computer has cores, which its processes share: they take turns, whatever each has to do, as the kernel's scheduler
// sees to it.
type computer struct {
	clock *clock
	idle  int
	speed float64    // 1: nobody else is on it
	ready []*process // that wait for a core, by turn
	busy  float64    // µs of all cores
}

// A process has threads, and work in the order in which it came.
type process struct {
	on      *computer
	threads int // that do not run
	work    []work
	queued  bool // it is in ready
}

type work struct {
	left float64
	then func()
}

func (c *computer) process(threads int) *process { return &process{on: c, threads: threads} }

// use takes cpu µs of a core, then calls then.
func (p *process) use(cpu float64, then func()) {
	p.work = append(p.work, work{cpu, then})
	p.enqueue()
	p.on.dispatch()
}

// enqueue asks for a core, if a thread could use one.
func (p *process) enqueue() {
	if !p.queued && p.threads > 0 && len(p.work) > 0 {
		p.queued = true
		p.on.ready = append(p.on.ready, p)
	}
}

// dispatch gives idle cores to those who wait.
func (c *computer) dispatch() {
	for c.idle > 0 && len(c.ready) > 0 {
		next := c.ready[0]
		c.ready = c.ready[1:]
		next.queued = false
		if len(next.work) == 0 { // another of its threads has done it
			continue
		}
		c.idle--
		next.threads--
		next.enqueue()
		c.turn(next, slice)
	}
}

// turn lets a process run until nothing is left to do, or its slice is.
func (c *computer) turn(p *process, left float64) {
	if len(p.work) == 0 || left <= 0 {
		c.idle++
		p.threads++
		p.enqueue()
		c.dispatch()
		return
	}
	w := p.work[0]
	p.work = p.work[1:]
	takes := min(w.left, left)
	c.busy += takes
	c.clock.after(takes/c.speed, func() {
		if w.left -= takes; w.left > 0 {
			p.work = append([]work{w}, p.work...)
		} else {
			w.then()
		}
		c.turn(p, left-takes)
	})
}
