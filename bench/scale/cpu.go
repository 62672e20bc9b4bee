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

// quantum is how long a process runs before another has its turn, in µs. Smaller ones changed no result.
const quantum = 500

// A computer has cores, which its processes share: they take turns, whatever each has to do, as the kernel's scheduler
// sees to it. Without that a store that wakes up would wait behind all requests that nginx and the instances have.
type computer struct {
	clock *clock
	idle  int
	speed float64    // 1: nobody else is on it
	ready []*process // with work and with a thread that does not run, by turn
	busy  float64    // µs of all cores
}

// A process has threads, and work in the order in which it came.
type process struct {
	on      *computer
	threads int // that are free
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
	p.on.dispatch(p)
}

func (c *computer) dispatch(p *process) {
	if !p.queued && p.threads > 0 && len(p.work) > 0 {
		p.queued = true
		c.ready = append(c.ready, p)
	}
	for c.idle > 0 && len(c.ready) > 0 {
		next := c.ready[0]
		c.ready = c.ready[1:]
		next.queued = false
		w := next.work[0]
		next.work = next.work[1:]
		c.idle--
		next.threads--
		slice := min(w.left, quantum)
		c.busy += slice
		c.clock.after(slice/c.speed, func() {
			c.idle++
			next.threads++
			if w.left -= slice; w.left > 0 {
				next.work = append([]work{w}, next.work...)
			}
			c.dispatch(next)
			if w.left <= 0 {
				w.then()
			}
		})
		if next.threads > 0 && len(next.work) > 0 {
			next.queued = true
			c.ready = append(c.ready, next)
		}
	}
}
