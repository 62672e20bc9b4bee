package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/format"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// serving are the packages of which a service is made, and the judges of one: mutants are made of them by operators.
var serving = []string{
	"app", "app/credentials", "app/health", "app/metrics", "app/traces", "handler", "handler/access", "handler/demo",
	"handler/orders", "internal/batching", "internal/mysqlerr", "internal/rediserr", "internal/redisscript",
	"internal/words", "loadtest", "loadtest/checkout", "loadtest/mapping", "loadtest/tally", "lock", "lock/local",
	"lock/mysqllock", "lock/redislock", "lock/zklock", "repo", "repo/gate", "repo/ledger", "repo/redisrate",
	"repo/stock", "repo/writer", "service", "service/archive", "service/order", "service/ratelimit", "service/relay",
	"service/repair", "service/strategy",
}

// A sampling tries mutants that operators have made.
//
// All mutants of a sample are compiled into one program for each package with tests, and one of them is on when it
// runs: compiling is what costs most. A few cannot be switched, such as a constant, and have programs of their own.
type sampling struct {
	*workshop
	source  *source
	reached *reached
	probes  []*change
	overlay string

	mu      sync.Mutex
	built   map[string]*greenProgram // by folder, and the id of a mutant that cannot be switched
	reading map[string]*sync.Once    // by folder
	failed  map[string]error
}

// A specimen is a mutant of the sample, and what became of it.
type specimen struct {
	*change
	alone  bool   // it cannot be switched
	same   string // why it changes nothing
	result Result
}

// sampled makes the sample: N mutants that compile, by the seed, or all.
func (s *sampling) sampled(tables []*Mutant) (sample []*specimen, of int, err error) {
	all, err := s.source.changes()
	if err != nil {
		return nil, 0, err
	}
	var candidates []*change
	for _, c := range all {
		if c.form == probe {
			c.id = len(s.probes)
			s.probes = append(s.probes, c)
		} else if s.only == nil || s.only.MatchString(c.path()+":"+c.name(s.source.text(c))) {
			candidates = append(candidates, c)
		}
	}
	if s.random > 0 {
		r := rand.New(rand.NewPCG(s.seed, 0))
		r.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	}
	for _, c := range candidates {
		if s.random > 0 && len(sample) == s.random {
			break
		}
		plain, switchable := s.source.compiles(c)
		if !plain {
			continue
		}
		c.id = len(sample) + 1
		one := &specimen{change: c, alone: !switchable, same: listedSame(c, s.source.text(c), tables)}
		one.result = Result{File: c.path(), Name: c.name(s.source.text(c)), Key: s.keyOf(c)}
		sample = append(sample, one)
	}
	return sample, len(candidates), nil
}

// listedSame returns the reason if a table lists the change as one that makes no difference.
func listedSame(c *change, text string, tables []*Mutant) string {
	tidy := func(text string) string {
		short, err := format.Source([]byte(text))
		if err != nil {
			return text
		}
		return string(short)
	}
	for _, m := range tables {
		if m.Same == "" || m.path() != c.path() {
			continue
		}
		if mutated, err := m.apply(text); err == nil && tidy(mutated) == tidy(c.changed(text, 0, len(text))) {
			return m.Same
		}
	}
	return ""
}

// name says where the change is, and shows the line.
func (c *change) name(text string) string {
	before, after := c.lines(text)
	what, _, more := strings.Cut(strings.TrimSpace(before), "\n")
	if more {
		what += " …"
	}
	with, _, more := strings.Cut(strings.TrimSpace(after), "\n")
	if more {
		with += " …"
	}
	return fmt.Sprintf("%d: %s  =>  %s", c.line, what, with)
}

// lines returns the lines of the change, without it and with it.
func (c *change) lines(text string) (before, after string) {
	lo := strings.LastIndex(text[:c.from], "\n") + 1
	hi := len(text)
	if n := strings.Index(text[c.to:], "\n"); n >= 0 {
		hi = c.to + n
	}
	return text[lo:hi], c.changed(text, lo, hi)
}

// keyOf is the hash of a change and of its file.
func (s *sampling) keyOf(c *change) string {
	text := s.source.text(c)
	with := c.changed(text, c.from, c.to)
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d %q", c.path(), text, c.from, c.to, with))
	return fmt.Sprintf("%x", sum[:12])
}

// sample runs the mutants of operators. The error is of the machinery, or says that too many have survived.
func (w *workshop) sample(ctx context.Context, tables []*Mutant, out io.Writer) (score, error) {
	var none score
	folders := w.packages
	if len(folders) == 0 {
		folders = serving
	}
	src, err := readSource(ctx, w.root, folders)
	if err != nil {
		return none, err
	}
	s := &sampling{
		workshop: w, source: src, built: make(map[string]*greenProgram),
		reading: make(map[string]*sync.Once), failed: make(map[string]error),
	}
	if s.reached, err = readReached(filepath.Join(filepath.Dir(w.options.state), "reached.json")); err != nil {
		return none, err
	}
	sample, of, err := s.sampled(tables)
	if err != nil {
		return none, err
	}
	if w.list {
		for _, m := range sample {
			fmt.Fprintf(out, "%s:%s\n", m.path(), m.result.Name)
		}
		return none, nil
	}
	if w.dir, err = os.MkdirTemp("", "mutate"); err != nil {
		return none, err
	}
	defer os.RemoveAll(w.dir)
	var switches []*change
	for _, m := range sample {
		known, is := w.state.known(m.result.Key)
		switch {
		case m.same != "":
			m.result.Verdict, m.result.How = same, m.same
		case w.resume && is && known.Verdict == killed: // what has survived may have a test by now
			m.result = known
		case !m.alone:
			switches = append(switches, m.change)
		}
	}
	if s.overlay, err = src.overlay(w.dir, s.probes, switches); err != nil {
		return none, err
	}
	if err := s.tryEach(ctx, sample); err != nil {
		return none, err
	}
	sc := score{seed: w.seed, of: of, long: w.long}
	for _, m := range sample {
		sc.add(m, src)
	}
	return sc, nil
}

// tryEach tries what has no result yet, in the order of the sample, until the budget is spent.
func (s *sampling) tryEach(ctx context.Context, sample []*specimen) error {
	whole := ctx
	ctx, stop := context.WithCancelCause(whole)
	defer stop(nil)
	work := make(chan *specimen)
	var workers sync.WaitGroup
	for range s.workers {
		workers.Go(func() {
			for m := range work {
				if m.result.Verdict == "" {
					if err := s.tryOne(ctx, m); err != nil {
						stop(err)
						continue
					}
				}
				s.tell(len(sample), m.result)
			}
		})
	}
	for _, m := range sample {
		if ctx.Err() != nil || s.budget > 0 && time.Since(s.begun) > s.budget {
			break
		}
		work <- m
	}
	close(work)
	workers.Wait()
	if whole.Err() != nil {
		return fmt.Errorf("ended after %d of %d mutants; --resume goes on from here", s.done, len(sample))
	}
	return context.Cause(ctx)
}

// tryOne runs the tests that reach the func of a mutant: those of its own package first, and of those in it; fast ones
// before slow ones.
func (s *sampling) tryOne(ctx context.Context, m *specimen) error {
	began := time.Now()
	var near, far []string
	for _, dir := range s.source.testers[m.pkg] {
		if dir == m.pkg || strings.HasPrefix(dir, m.pkg+"/") {
			near = append(near, dir)
		} else {
			far = append(far, dir)
		}
	}
	r := &m.result
	ran, left := 0, 0
	spent := 0.0
	for _, dirs := range [][]string{near, far} {
		var tests []reachedTest
		for _, dir := range dirs {
			found, err := s.reach(ctx, dir, m.fn)
			if err != nil {
				return err
			}
			tests = append(tests, found...)
		}
		for _, group := range groups(tests) {
			seconds := 0.0
			for _, t := range group {
				seconds += t.seconds
			}
			if spent += seconds; spent > s.patience.Seconds() {
				left += len(group)
				continue
			}
			ran += len(group)
			saw, err := s.runGroup(ctx, m, group, seconds)
			if err != nil {
				return err
			}
			if saw.red == "" {
				continue
			}
			r.Verdict, r.How, r.By, r.Output = killed, saw.red, saw.by, tail(saw.output, 400)
			r.Seconds = time.Since(began).Seconds()
			return s.state.keep(*r)
		}
	}
	r.Verdict, r.Seconds = survived, time.Since(began).Seconds()
	r.How = fmt.Sprintf("%d tests that reach %s are green", ran, cmp.Or(m.fn, "its file"))
	if left > 0 {
		r.How += fmt.Sprintf(", %d were not run: they take too long", left)
	}
	return s.state.keep(*r)
}

// runGroup runs tests of one package with the mutant. What has failed must fail twice, so that a busy computer kills
// nothing.
func (s *sampling) runGroup(ctx context.Context, m *specimen, group []reachedTest, seconds float64) (seen, error) {
	dir := group[0].dir
	program, err := s.programOf(ctx, dir, m)
	if err != nil {
		return seen{}, err
	}
	var names []string
	for _, t := range group {
		names = append(names, t.name)
	}
	limit, short := 20*time.Second+time.Duration(10*seconds*float64(time.Second)), !group[0].long
	env := fmt.Sprintf("MUTANT=%d", m.id)
	for { // a flaky test that is red by itself is left out the next time
		saw, err := s.runTest(ctx, testRun{program, dir, strings.Join(names, "|"), limit, short, env})
		if err != nil || saw.red == "" || saw.red == "hang" {
			return saw, err
		}
		top, _, _ := strings.Cut(saw.by, "/")
		again, err := s.runTest(ctx, testRun{program, dir, top, limit, short, env})
		if err != nil || again.red != "" {
			return again, err
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == top })
		if len(names) == 0 || top == "" {
			return again, nil
		}
	}
}

// groups are tests of one package that run in one process: the fast ones first, so that most mutants cost little. Tests
// that -short skips come last.
func groups(tests []reachedTest) (list [][]reachedTest) {
	slices.SortStableFunc(tests, func(a, b reachedTest) int { return cmp.Compare(a.seconds, b.seconds) })
	var long [][]reachedTest
	tests = slices.DeleteFunc(tests, func(t reachedTest) bool {
		if t.long {
			long = append(long, []reachedTest{t})
		}
		return t.long
	})
	for _, most := range []float64{0.5, 2, 10, 1e9} {
		byDir := make(map[string][]reachedTest)
		var dirs []string
		for len(tests) > 0 && tests[0].seconds <= most {
			dir := tests[0].dir
			if byDir[dir] == nil {
				dirs = append(dirs, dir)
			}
			byDir[dir] = append(byDir[dir], tests[0])
			tests = tests[1:]
		}
		for _, dir := range dirs {
			if most > 2 {
				for _, t := range byDir[dir] { // a slow one alone: the next may not be needed
					list = append(list, []reachedTest{t})
				}
				continue
			}
			list = append(list, byDir[dir])
		}
	}
	return append(list, long...)
}

// programOf builds the test of a package, once for all mutants that can be switched.
func (s *sampling) programOf(ctx context.Context, dir string, m *specimen) (string, error) {
	if m != nil && m.alone {
		name := fmt.Sprintf("%s %d", dir, m.id)
		return s.once(name, func() (string, error) {
			place, err := os.MkdirTemp(s.dir, "")
			if err != nil {
				return "", err
			}
			text := s.source.text(m.change)
			overlay, err := writeOverlay(place, map[string]string{
				filepath.Join(s.root, filepath.FromSlash(m.path())): m.changed(text, 0, len(text)),
			})
			if err != nil {
				return "", err
			}
			return s.buildWith(ctx, dir, overlay)
		})
	}
	return s.once(dir, func() (string, error) { return s.buildWith(ctx, dir, s.overlay) })
}

func (s *sampling) once(name string, build func() (string, error)) (string, error) {
	s.mu.Lock()
	p := s.built[name]
	if p == nil {
		p = new(greenProgram)
		s.built[name] = p
	}
	s.mu.Unlock()
	p.once.Do(func() { p.path, p.err = build() })
	return p.path, p.err
}

func (s *sampling) buildWith(ctx context.Context, dir, overlay string) (string, error) {
	program, _, err := s.compile(ctx, dir, false, overlay)
	var failed *buildError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("%s with its mutants: %w", dir, failed)
	}
	return program, err
}
