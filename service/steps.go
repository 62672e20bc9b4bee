package service

import (
	"sync"
	"time"

	"example.com/stock/lock"
)

// A Watcher gets each step of each sale when it happens, from the goroutine that sells. Tell must be quick and must not
// wait. It is called in order for the steps of one sale, and concurrently for those of different sales.
type Watcher interface{ Tell(Step) }

// A StepKind is what a sale has just done, or is about to do.
type StepKind string

// The steps, in the order of a sale. A seller omits steps that it does not have. A seller that retries repeats the
// steps from Acquired on.
const (
	Arrived  StepKind = "arrived"  // nothing was sent yet
	Waits    StepKind = "waits"    // it asks for the lock, or for its place in the store
	Woken    StepKind = "woken"    // the lock's server woke it while it waits; see lock.Options.OnWake
	Acquired StepKind = "acquired" // it is in the critical section; without a lock, other sales may be, too
	ReadIt   StepKind = "read"     // the quantity was read
	Thinks   StepKind = "thinks"
	Writes   StepKind = "writes"   // the write is about to be sent
	Wrote    StepKind = "wrote"    // the order is in the store; in a transaction it is not committed before Ended
	Released StepKind = "released" // it is about to release the lock
	Ended    StepKind = "ended"    // Err says how

	Paused  StepKind = "paused"  // it waits at Point until it is released
	Resumed StepKind = "resumed" // it continues
)

// A Step is one step of a sale. A field that is not known yet is zero.
type Step struct {
	Number    uint64    // from 1, in the order in which they happened in the instance; set by [Steps]
	At        time.Time // by the clock of this instance
	Kind      StepKind
	RequestID string
	Strategy  string
	SKU       SKU
	Quantity  int64
	Read      int64 // from ReadIt on; from Wrote on, if the store reads and writes in one step
	Remaining int64 // from Writes on
	Version   uint64
	Epoch     uint64
	Segment   int
	Fence     lock.Fence // of the holder
	Point     Points     // of Paused and Resumed
	Err       error      // of Ended; nil: sold
	Replayed  bool       // of Ended: nothing was sold, the receipt is of an earlier request with the same Key
	Batch     InBatch    // from Acquired on, if the seller merges: its place in the batch
}

// Steps keeps the latest steps of an instance in a ring, which drops the oldest. A sale never waits for a reader;
// After returns the number of steps that a slow reader has missed.
type Steps struct {
	mu   sync.Mutex
	ring []Step
	last uint64        // the number of the latest step
	more chan struct{} // closed by the next step; nil: nobody waits for one
}

// NewSteps returns a Steps that keeps size steps, of some 200 bytes each.
func NewSteps(size int) *Steps { return &Steps{ring: make([]Step, size)} }

// Tell keeps a step and gives it the next number. It allocates nothing.
func (s *Steps) Tell(step Step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	step.Number = s.last
	s.ring[s.last%uint64(len(s.ring))] = step
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
}

// After returns the steps after the one with that number, oldest first, and how many steps were dropped in between.
// It returns at most as many as fit into a message. If there are none, more is closed when the next step comes.
func (s *Steps) After(number uint64) (steps []Step, dropped uint64, more <-chan struct{}) {
	const most = 256
	s.mu.Lock()
	defer s.mu.Unlock()
	if number >= s.last {
		if s.more == nil {
			s.more = make(chan struct{})
		}
		return nil, 0, s.more
	}
	if size := uint64(len(s.ring)); s.last-number > size {
		dropped = s.last - number - size
		number += dropped
	}
	for n := number + 1; n <= s.last && len(steps) < most; n++ {
		steps = append(steps, s.ring[n%uint64(len(s.ring))])
	}
	return steps, dropped, nil
}

// Last returns the number of the latest step, 0 before the first.
func (s *Steps) Last() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// tell passes a step of the sale to the Watcher, if there is one.
func (s *Sale) tell(kind StepKind) {
	if s.watch == nil {
		return
	}
	step := Step{
		At: time.Now(), Kind: kind, RequestID: s.RequestID, Strategy: s.Strategy, SKU: s.SKU, Quantity: s.Quantity,
		Read: s.Read, Remaining: s.Remaining, Version: s.Version, Epoch: s.Epoch, Segment: s.Segment,
		Fence: s.fence,
	}
	if s.batch != nil {
		step.Batch = *s.batch
	}
	s.watch.Tell(step)
}

// tellEnded passes the last step of a request to the Watcher, if there is one.
func (s *Service) tellEnded(req Request, r Receipt, err error) {
	if s.Watch == nil {
		return
	}
	step := stepOf(req, Ended)
	step.Err = err
	if err == nil {
		step.Read, step.Remaining, step.Version = r.Read, r.Remaining, r.Version
		step.Epoch, step.Segment, step.Fence, step.Replayed = r.Epoch, r.Segment, r.HolderFence, r.Replayed
	}
	s.Watch.Tell(step)
}

func stepOf(req Request, kind StepKind) Step {
	return Step{
		At: time.Now(), Kind: kind, RequestID: req.RequestID, Strategy: req.Strategy, SKU: req.SKU,
		Quantity: req.Quantity,
	}
}
