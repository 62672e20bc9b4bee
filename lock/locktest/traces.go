package locktest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// perKey is the number of entries that a key may leave on a server: its fence, and the record that is locked.
const perKey = 2

// traceRounds is how often each worker acquires: two thousand times in all. A leak shows after some ten of them.
const traceRounds = 140

// few is the number of additional goroutines that do not count as a leak.
const few = 10

func traces(ctx context.Context, s *Scene) error {
	list, before := make([]*remote, 2), make([]int, 2)
	for i := range list {
		p, err := s.process()
		if err != nil {
			return err
		}
		if before[i], err = p.goroutines(ctx); err != nil {
			return err
		}
		if list[i], err = p.open(ctx, s.Harness, addrs(s.Servers), calm, 0); err != nil {
			return err
		}
	}
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprintf("%s-%d", s.Key, i))
	}
	// At least 40 rounds in each process, so that a leak of one goroutine per round exceeds few.
	history, err := runStorms(ctx, list, storm{
		Keys: keys, Workers: 8, Rounds: traceRounds, Limit: s.storm, Least: 5, Leave: 10,
	})
	if err == nil {
		err = Overlaps(history, s.Promise.Fenced)
	}
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := r.close(ctx); err != nil {
			return fmt.Errorf("close: %w", err)
		}
	}
	s.seen = fmt.Sprintf("%d acquisitions", len(history))
	if s.Kept != nil {
		n, err := s.Kept(ctx, addrs(s.Servers), s.Key)
		if err != nil {
			return err
		}
		if s.seen += fmt.Sprintf(", %d things of %d keys stay", n, len(keys)); n > perKey*len(keys) {
			return fmt.Errorf("%s: that is more than %d for each", s.seen, perKey)
		}
	}
	left := ""
	for deadline := time.Now().Add(s.timeout); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if left, err = s.left(ctx, list, before); err != nil || left == "" {
			return err
		}
	}
	return errors.New(left)
}

func (s *Scene) left(ctx context.Context, list []*remote, before []int) (string, error) {
	for i, r := range list {
		after, err := r.goroutines(ctx)
		if err != nil {
			return "", err
		}
		// The runtime or the contender may start a few goroutines after the first count. A leak would add one goroutine
		// for each of hundreds of acquisitions.
		if after > before[i]+few {
			return fmt.Sprintf("%d goroutines, %d before", after, before[i]), nil
		}
	}
	if s.Left == nil {
		return "", nil
	}
	names, err := s.Left(ctx, addrs(s.Servers), s.Key)
	if err != nil || len(names) == 0 {
		return "", err
	}
	return fmt.Sprintf("%d things on the server, such as %s", len(names), names[0]), nil
}

func (p *process) goroutines(ctx context.Context) (int, error) {
	answer, err := p.call(ctx, request{Do: "count"})
	return answer.N, err
}
