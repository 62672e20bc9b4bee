package locktest

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A suite is one run of Conform: the contenders it has started, and what it found.
type suite struct {
	turns chan struct{}
	tries sync.WaitGroup

	mu       sync.Mutex
	idle     []*process
	failed   []error
	outcomes []Outcome
}

func newSuite(atOnce int) *suite { return &suite{turns: make(chan struct{}, atOnce)} }

// end waits for everything, and for the contenders to end in good order.
func (s *suite) end() error {
	s.tries.Wait()
	ends := make([]error, len(s.idle))
	var all sync.WaitGroup
	for i, p := range s.idle {
		all.Go(func() { ends[i] = p.quit() })
	}
	all.Wait()
	s.failed = append(s.failed, ends...)
	return errors.Join(append(s.failed, s.write(outcomesDir()))...)
}

// A result is that of one try.
type result struct {
	err  error
	seen string
	took time.Duration
}

// begin tries a sentence when it is its turn.
func (s *suite) begin(b Harness, sentence Clause, tune ...func(*Scene)) <-chan result {
	come := make(chan result, 1)
	s.tries.Go(func() {
		s.turns <- struct{}{}
		defer func() { <-s.turns }()
		come <- s.try(b, sentence, tune)
	})
	return come
}

// sentenceBound is how long a sentence may take; all of them have bounds of their own.
const sentenceBound = 3 * time.Minute

func (s *suite) try(b Harness, sentence Clause, tune []func(*Scene)) result {
	ctx, cancel := context.WithTimeout(context.Background(), sentenceBound)
	defer cancel()
	began := time.Now()
	scene := newScene(b, s)
	for _, f := range tune {
		f(scene)
	}
	err := errors.Join(sentence.Check(ctx, scene), scene.end())
	return result{err, scene.seen, time.Since(began)}
}

// process takes an idle contender, or starts one.
func (s *suite) process() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := len(s.idle); n > 0; n = len(s.idle) {
		p := s.idle[n-1]
		s.idle = s.idle[:n-1]
		if p.usable() {
			return p, nil
		}
		s.failed = append(s.failed, p.quit())
	}
	return spawn()
}

func (s *suite) giveBack(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = append(s.idle, p)
}
