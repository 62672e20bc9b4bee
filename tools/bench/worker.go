package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A turn acquires the lock of key, works, and releases it. worked reports whether the work was done: the release may
// fail after it.
type turn func(ctx context.Context, key string) (worked bool, err error)

// tooMany is the number of errors of one contender after which it gives up.
const tooMany = 1000

// work is the main function of a worker process. It leaves its connections to the operating system.
func work(text string, in io.Reader, out io.Writer) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e, err := lookup(t.Entrant)
	if err != nil {
		return err
	}
	contenders, err := e.open(ctx, t)
	if err != nil {
		return fmt.Errorf("open %s: %w", t.Entrant, err)
	}
	warm := t
	warm.RunMS, warm.Keys = t.WarmMS, 0
	if r := contend(ctx, warm, contenders); r.Stuck > 0 {
		return fmt.Errorf("warm up %s: %d of %d contenders do not get through: %s", t.Entrant, r.Stuck, t.Contenders,
			r.Error)
	}
	lines := bufio.NewReader(in)
	fmt.Fprintln(out, "ready")
	if _, err := lines.ReadString('\n'); err != nil {
		return nil // the parent is gone
	}
	go func() { // ends with the process
		_, _ = lines.ReadString('\n')
		os.Exit(1)
	}()
	stop, err := profile(t.Profile)
	if err != nil {
		return err
	}
	r := contend(ctx, t, contenders)
	stop() // before the report: after it the parent may end us
	return json.NewEncoder(out).Encode(r)
}

// profile writes a CPU profile to the named file until stop is called. Without a name it does nothing.
func profile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, fmt.Errorf("write the profile: %w", err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, fmt.Errorf("profile: %w", err)
	}
	return func() { pprof.StopCPUProfile(); file.Close() }, nil
}

// contend lets all contenders of this process repeat their turns for t.RunMS. A wait that began in time is measured
// to its end: a contender that starves is measured, not left out.
func contend(ctx context.Context, t task, contenders []turn) report {
	deadline := time.Now().Add(t.run())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last := time.AfterFunc(t.run()+time.Duration(t.GraceMS)*time.Millisecond, cancel)
	defer last.Stop()

	tallies := make([]tally, len(contenders))
	var all sync.WaitGroup
	for i, take := range contenders {
		all.Go(func() { tallies[i] = tallyOf(ctx, t, take, deadline) })
	}
	finished := make(chan struct{})
	go func() { all.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-ctx.Done():
		// A lock without a context does not come back. The others have two seconds.
		select {
		case <-finished:
		case <-time.After(2 * time.Second):
			return report{
				Done: make([]int64, len(contenders)), Stuck: int64(len(contenders)),
				Error: "contenders do not come back",
			}
		}
	}
	var r report
	h := newHistogram()
	for _, one := range tallies {
		r.Done = append(r.Done, one.done)
		r.Late += one.late
		r.Failed += one.failed
		if one.stuck {
			r.Stuck++
		}
		if one.err != nil {
			r.Error = one.err.Error()
		}
		h.Merge(one.times)
	}
	r.Histogram, _ = h.Encode(hdrhistogram.V2CompressedEncodingCookieBase) // cannot fail for these histograms
	return r
}

// A tally counts what one contender did.
type tally struct {
	done, late, failed int64
	stuck              bool
	err                error
	times              *hdrhistogram.Histogram
}

func tallyOf(ctx context.Context, t task, take turn, deadline time.Time) tally {
	m := tally{times: newHistogram()}
	for time.Now().Before(deadline) {
		key := t.warmKey()
		if t.Keys > 0 {
			key = t.draw()
		}
		began := time.Now()
		for {
			worked, err := take(ctx, key)
			if err != nil {
				m.failed++
				m.err = err
			}
			if worked {
				break
			}
			if ctx.Err() != nil || m.failed >= tooMany {
				m.stuck = true
				return m
			}
		}
		ended := time.Now()
		record(m.times, ended.Sub(began))
		if ended.Before(deadline) {
			m.done++
		} else {
			m.late++
		}
	}
	return m
}
