package main

import (
	"math"
	"sync"
)

// seed is that of every simulation: the same constants make the same page.
const seed = 12

// Findings are what the simulations found.
type findings struct {
	checks []check
	worlds []world
}

// A check holds a measured point against the model.
type check struct {
	store *store
	point
	model account
}

// off is by how much the model is wrong: 0.1 is a tenth too much.
func (c check) off() float64 { return c.model.rate/c.Rate - 1 }

// within is how far the model may be off.
const within = 0.25

// A world is so many instances on computers of their own.
type world struct {
	store     *store
	instances int
	account
}

// The computers of the worlds, and what lies between them.
const (
	ownCores  = 4
	trip      = 200.0 // µs, within one data centre
	perCaller = 256   // callers for each instance
)

// sizes are the numbers of instances of the worlds.
func sizes() []int { return []int{1, 2, 3, 5, 10, 20, 30, 50, 100} }

// simulateAll runs every simulation. They share nothing, so they run side by side.
func simulateAll(c *constants) *findings {
	f := &findings{}
	for _, s := range c.Stores {
		for _, p := range s.Runs {
			f.checks = append(f.checks, check{store: s, point: p})
		}
		for _, n := range sizes() {
			f.worlds = append(f.worlds, world{store: s, instances: n})
		}
	}
	var all sync.WaitGroup
	room := make(chan struct{}, 4)
	do := func(work func()) {
		all.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			work()
		})
	}
	for i := range f.checks {
		do(func() { f.checks[i].model = here(c, f.checks[i]) })
	}
	for i := range f.worlds {
		do(func() { f.worlds[i].account = apart(f.worlds[i].store.Costs, f.worlds[i].instances) })
	}
	all.Wait()
	return f
}

// here simulates a run in which everything shares one computer. What other programs took of it, nobody has.
func here(c *constants, p check) account {
	return simulate(setup{
		costs: p.store.Costs, instances: p.Instances, callers: p.Connections, limit: limitOf, shared: c.CPUs,
		speed: max(0.1, 1-p.Others/float64(c.CPUs)), seed: seed, seconds: 2,
	})
}

// apart simulates n instances on computers of their own, and a store on another. It takes as long as five times the
// queue in front of the row, of which the first is not counted.
func apart(k costs, n int) account {
	callers := n * perCaller
	return simulate(setup{
		costs: k, instances: n, callers: callers, limit: limitOf, own: ownCores, trip: trip, seed: seed,
		seconds: max(0.5, 5*float64(callers)/rowLimit(k, 0)),
	})
}

// rowLimit is what one row sells at most, from the costs alone: full batches, one after the other. more is what each of
// them waits for besides, in µs: a slower disk, or replicas that have to agree.
func rowLimit(k costs, more float64) float64 {
	return limitOf / hold(k, more) * 1e6
}

// hold is how long a full batch has the row, in µs. The row is locked when the first trip with it arrives, and let go
// before the last one is answered, so there is a trip less between them, with what the caller does for it.
func hold(k costs, more float64) float64 {
	trips, between := max(k.Trips, 1), max(0, k.TripsLocked-1)
	return between*(trip+k.StepCaller.at(limitOf)/trips) + k.StepWait + more +
		max(k.TripsLocked, 1)/trips*max(0, k.StepStore.A) + k.StepStore.B*limitOf
}

// storeCores are the cores that a store can use on a computer of its own.
func storeCores(k costs) float64 {
	if k.StoreCores > 0 {
		return min(ownCores, float64(k.StoreCores))
	}
	return ownCores
}

// segmentsLimit is what a SKU sells whose stock is in several rows of one store: as much more, until the store has no
// CPU left.
func segmentsLimit(k costs, segments, more float64) float64 {
	return min(segments*rowLimit(k, more), storeCores(k)/k.StepStore.at(limitOf)*limitOf*1e6)
}

// frontLimit is what the CPUs of one instance's computer let it sell in batches of n, with nginx on it.
func frontLimit(k costs, n int) float64 {
	return ownCores / (k.Nginx.in(n) + k.Service.in(n) + k.StepCaller.at(n)/float64(n)) * 1e6
}

// coldLimit is what one store sells if no two callers want the same SKU, so that every sale is a step of its own: its
// CPUs are the limit.
func coldLimit(k costs) float64 {
	return storeCores(k) / k.StepStore.at(1) * 1e6
}

// knee is how many instances one row keeps busy.
func knee(k costs) int { return int(math.Ceil(rowLimit(k, 0) / frontLimit(k, limitOf))) }

// A shards is what n instances sell of a million SKUs over so many stores.
type shards struct {
	stores, instances int
	hot, cold         float64 // one SKU gets all; all SKUs alike
}

func shardsOf(k costs) []shards {
	var list []shards
	for _, n := range []int{1, 10, 100} {
		for _, stores := range []int{1, 4, 16, 64} {
			list = append(list, shards{
				stores, n, min(float64(n)*frontLimit(k, limitOf), rowLimit(k, 0)),
				min(float64(n)*frontLimit(k, 1), float64(stores)*coldLimit(k)),
			})
		}
	}
	return list
}
