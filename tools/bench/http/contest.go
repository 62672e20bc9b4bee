package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"example.com/stock/internal/stack"
	"example.com/stock/tools/bench/rig"
)

// A contest holds the sides and what is measured on them.
type contest struct {
	settings settings
	folder   string // of the programs
	jobs     []job

	main    *rig.Side
	ping    *rig.Side // nil: it is not measured
	beside  *rig.Side // nil: there is none
	door    *door     // nil: no tokens are measured
	traced  *followed // nil: traces are not measured
	store   *bare     // nil: the store without HTTP is not measured
	version string
	other   string // version of beside
}

// open builds the programs and starts the sides. On error nothing is left running.
func open(ctx context.Context, s settings, root string) (c *contest, err error) {
	if _, err := rig.FindWrk(); err != nil {
		return nil, err
	}
	c = &contest{settings: s, jobs: jobs(s)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
			c = nil
		}
	}()
	if c.folder, err = os.MkdirTemp("", "bench-http-"); err != nil {
		return c, err
	}
	program, otherProgram := filepath.Join(c.folder, "stock"), filepath.Join(c.folder, "stock-beside")
	rig.Progress("building the stock program")
	if err := rig.Build(ctx, root, program); err != nil {
		return c, err
	}
	c.version = rig.Version(ctx, root)
	if s.beside != "" {
		rig.Progress("building the stock program of %s", s.beside)
		if c.other, err = rig.BuildBeside(ctx, root, s.beside, otherProgram); err != nil {
			return c, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return c, err
	}
	rig.Progress("starting servers and instances")
	var all sync.WaitGroup
	var failed [5]error
	all.Go(func() {
		c.main, failed[0] = rig.Open(ctx, rig.Options{
			Name: "main", Binary: program, Instances: s.instances, Want: wanted(s.rows),
			Env: []string{storeOfOrders}, Tell: rig.Progress,
		})
	})
	if slices.Contains(s.rows, ping) {
		all.Go(func() {
			c.ping, failed[1] = rig.Open(ctx, rig.Options{
				Name: "ping", Binary: self, Instances: s.instances, Foreign: true, Tell: rig.Progress,
			})
		})
	}
	if s.beside != "" {
		all.Go(func() {
			c.beside, failed[2] = rig.Open(ctx, rig.Options{
				Name: "beside", Binary: otherProgram, Instances: s.instances, Want: wanted(s.besideRows),
				Tell: rig.Progress,
			})
		})
	}
	if slices.Contains(s.rows, proven) || slices.Contains(s.rows, limited) {
		all.Go(func() { c.door, failed[3] = openDoor(ctx, c.folder, program, s) })
	}
	if slices.Contains(s.rows, traced) {
		all.Go(func() { c.traced, failed[4] = openTraced(ctx, program, s, true) })
	}
	all.Wait()
	if err := errors.Join(failed[:]...); err != nil {
		return c, err
	}
	if slices.Contains(s.rows, noHTTP) {
		c.store, err = openBare(c.main)
	}
	return c, err
}

// wanted returns the servers that rows need. Redis is always there: some locks register with it.
func wanted(names []string) []stack.Kind {
	want := []stack.Kind{stack.Redis}
	for _, r := range rows() {
		if slices.Contains(names, r.name) && r.needs != "" && !slices.Contains(want, r.needs) {
			want = append(want, r.needs)
		}
	}
	return want
}

// close stops everything.
func (c *contest) close() error {
	var all sync.WaitGroup
	sides := c.sides()
	failed := make([]error, len(sides))
	if c.store != nil {
		c.store.close()
	}
	for i, side := range sides {
		all.Go(func() { failed[i] = side.Close() })
	}
	all.Wait()
	failed = append(failed, c.traced.close())
	if c.folder != "" {
		failed = append(failed, os.RemoveAll(c.folder))
	}
	return errors.Join(failed...)
}

// sides returns all that are open, and nil for others.
func (c *contest) sides() []*rig.Side {
	sides := []*rig.Side{c.main, c.ping, c.beside}
	if c.door != nil {
		sides = append(sides, c.door.proven, c.door.limited)
	}
	return sides
}

// running returns those of sides, and the traced one, which close closes with its collector.
func (c *contest) running() []*rig.Side {
	sides := c.sides()
	if c.traced != nil {
		sides = append(sides, c.traced.Side)
	}
	return sides
}

// side returns where a job is measured.
func (c *contest) side(j job) *rig.Side {
	switch {
	case j.Row == proven:
		return c.door.proven
	case j.Row == limited:
		return c.door.limited
	case j.Row == traced:
		return c.traced.Side
	case j.Beside:
		return c.beside
	case j.Row == ping:
		return c.ping
	}
	return c.main
}
