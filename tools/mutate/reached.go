package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// reached says which tests reach which funcs. It is kept from run to run, for each test as long as its func stays as it
// is. It may be out of date where other code has changed: then a mutant may survive that a test would kill, and none is
// killed that would survive.
type reached struct {
	mu   sync.Mutex
	file string
	// Tests are by the folder of their package, and by name.
	Tests map[string]map[string]*testReach `json:"tests"`
}

// A testReach is what one test reaches.
type testReach struct {
	Hash    string   `json:"hash"` // of its code
	Red     bool     `json:"red,omitempty"`
	Long    bool     `json:"long,omitempty"` // -short skips it
	Seconds float64  `json:"seconds"`
	Funcs   []string `json:"funcs"`
}

// A reachedTest is a test that reaches a func.
type reachedTest struct {
	dir, name string
	seconds   float64
	long      bool
}

func readReached(file string) (*reached, error) {
	r := &reached{file: file, Tests: make(map[string]map[string]*testReach)}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, r)
	}
	return r, err
}

func (r *reached) write() error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(r.file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.file, text, 0o644)
}

// reach returns the tests of a package that reach a func and are green without a mutant. No func is any: a mutant of a
// declaration may be noticed by each.
func (s *sampling) reach(ctx context.Context, dir, fn string) (list []reachedTest, err error) {
	s.mu.Lock()
	once := s.reading[dir]
	if once == nil {
		once = new(sync.Once)
		s.reading[dir] = once
	}
	s.mu.Unlock()
	once.Do(func() {
		err := s.measure(ctx, dir)
		s.mu.Lock()
		s.failed[dir] = err
		s.mu.Unlock()
	})
	s.mu.Lock()
	err = s.failed[dir]
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	s.reached.mu.Lock()
	defer s.reached.mu.Unlock()
	for name, t := range s.reached.Tests[dir] {
		if !t.Red && (s.long || !t.Long) && (fn == "" || slices.Contains(t.Funcs, fn)) {
			list = append(list, reachedTest{dir, name, t.Seconds, t.Long})
		}
	}
	slices.SortFunc(list, func(a, b reachedTest) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// measure runs each test of a package in a process of its own, and keeps which funcs it reaches.
func (s *sampling) measure(ctx context.Context, dir string) error {
	hashes, err := testHashes(filepath.Join(s.root, filepath.FromSlash(dir)))
	if err != nil {
		return err
	}
	s.reached.mu.Lock()
	known := s.reached.Tests[dir]
	if known == nil {
		known = make(map[string]*testReach)
		s.reached.Tests[dir] = known
	}
	var missing []string
	for name := range known {
		if hashes[name] == "" {
			delete(known, name)
		}
	}
	for name, hash := range hashes {
		if t := known[name]; t == nil || t.Red || t.Hash != hash || s.long && t.Long && t.Funcs == nil {
			missing = append(missing, name)
		}
	}
	s.reached.mu.Unlock()
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	program, err := s.programOf(ctx, dir, nil)
	if err != nil {
		return err
	}
	began := time.Now()
	work := make(chan string)
	errs := make(chan error, len(missing))
	var workers sync.WaitGroup
	for range 2 * s.workers { // most tests wait for servers
		workers.Go(func() {
			for name := range work {
				t, err := s.measureOne(ctx, program, dir, name)
				if err != nil {
					errs <- err
					continue
				}
				t.Hash = hashes[name]
				s.reached.mu.Lock()
				known[name] = t
				s.reached.mu.Unlock()
			}
		})
	}
	for _, name := range missing {
		work <- name
	}
	close(work)
	workers.Wait()
	if len(errs) > 0 {
		return <-errs
	}
	fmt.Fprintf(s.progress, "%s: %d tests, what they reach, %.0f s\n", dir, len(missing), time.Since(began).Seconds())
	s.reached.mu.Lock()
	defer s.reached.mu.Unlock()
	return s.reached.write()
}

func (s *sampling) measureOne(ctx context.Context, program, dir, name string) (*testReach, error) {
	file := filepath.Join(s.dir, strings.ReplaceAll(dir, "/", "_")+"."+name+".reached")
	run := testRun{program, dir, name, 3 * s.limit, true, "MUTANT_REACHED=" + file}
	saw, err := s.runTest(ctx, run)
	long := strings.Contains(saw.output, ": long: make verify\n--- SKIP: "+name+" ")
	if err == nil && long && s.long {
		run.limit, run.short = s.patience, false
		saw, err = s.runTest(ctx, run)
	}
	if err != nil || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	t := &testReach{Red: saw.red != "", Long: long, Seconds: saw.took.Seconds()}
	if !long || s.long {
		t.Funcs = strings.Fields(string(text))
	}
	if t.Red {
		fmt.Fprintf(s.progress, "%s %s is not green without a mutant (%s), and kills none\n", dir, name, saw.red)
	}
	return t, nil
}

// testHashes returns the hash of the code of each test in a folder.
func testHashes(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	hashes := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, found := range testFunc.FindAllSubmatchIndex(text, -1) {
			code, _, _ := bytes.Cut(text[found[0]:], []byte("\n}\n"))
			if name := string(text[found[2]:found[3]]); name != "TestMain" {
				hashes[name] = fmt.Sprintf("%x", sha256.Sum256(code))[:16]
			}
		}
	}
	return hashes, nil
}
