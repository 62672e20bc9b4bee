package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
)

// A Verdict is what became of a mutant.
type Verdict string

const (
	killed   Verdict = "killed"   // the test went red
	same     Verdict = "same"     // it compiles, and changes nothing, as its table says
	open     Verdict = "open"     // it compiles, and no test notices it, as its table says
	survived Verdict = "SURVIVED" // the test stayed green
	skipped  Verdict = "SKIPPED"  // the test was skipped
	wrong    Verdict = "WRONG"    // the table is wrong
)

// good reports whether the mutant is as its table says.
func (v Verdict) good() bool { return v == killed || v == same || v == open }

// A Result is what became of a mutant, with the files as they were.
type Result struct {
	Key     string  `json:"key"` // see tree.key
	File    string  `json:"file"`
	Name    string  `json:"name"`
	Verdict Verdict `json:"verdict"`
	By      string  `json:"by,omitempty"`     // the test that went red
	How     string  `json:"how,omitempty"`    // red, panic or hang; or what is wrong
	Output  string  `json:"output,omitempty"` // the end of what the test said
	Seconds float64 `json:"seconds"`          // of the test alone
}

// A state keeps results in a file from run to run, one for each mutant: the last. It keeps how long tests take without
// a mutant, too.
type state struct {
	mu      sync.Mutex
	file    string
	Results map[string]Result  `json:"results"` // by Result.Key
	Green   map[string]float64 `json:"green"`   // seconds of a test that is green, by the hash of its files and name
}

// readState reads the state of earlier runs, if there were any.
func readState(file string) (*state, error) {
	s := &state{file: file, Results: make(map[string]Result), Green: make(map[string]float64)}
	if err := s.add(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return s, nil
}

// add takes in the results of another file.
func (s *state) add(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var other state
	if err := json.Unmarshal(text, &other); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	maps.Copy(s.Results, other.Results)
	maps.Copy(s.Green, other.Green)
	return nil
}

// known returns the earlier result with this key.
func (s *state) known(key string) (Result, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.Results[key]
	return r, ok
}

// missing returns the mutants without a good result for the files as they are.
func (s *state) missing(mutants []*Mutant, t *tree) (missing []*Mutant) {
	for _, m := range mutants {
		if r, ok := s.known(t.key(m)); !ok || !r.Verdict.good() {
			missing = append(missing, m)
		}
	}
	return missing
}

// keep adds a result, drops the one that the mutant had for other files, and writes the file.
func (s *state) keep(r Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.Results, func(_ string, old Result) bool { return old.File == r.File && old.Name == r.Name })
	s.Results[r.Key] = r
	return s.write()
}

// green returns how long a test takes that is known to be green.
func (s *state) green(key string) (seconds float64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seconds, known = s.Green[key]
	return seconds, known
}

func (s *state) keepGreen(key string, seconds float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Green[key] = seconds
}

// write replaces the file. A run that is ended in the middle of it leaves the old one.
func (s *state) write() error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	next := s.file + ".new"
	if err := os.WriteFile(next, text, 0o644); err != nil {
		return err
	}
	return os.Rename(next, s.file)
}

// writeResults writes the results of one run as JSON.
func writeResults(file string, results []Result, out io.Writer) error {
	text, err := json.MarshalIndent(results, "", "\t")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if file == "-" {
		_, err = out.Write(text)
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
