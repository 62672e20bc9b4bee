package locktest

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// An Outcome is what the suite found of one sentence and one strategy.
type Outcome struct {
	Strategy string
	Sentence string
	Found    string // passed, not promised, broken (as is known), failed
	Why      string `json:",omitempty"`
	Keeps    string `json:",omitempty"` // of Traces: what stays, and for how long
}

const (
	passed      = "passed"
	notPromised = "not promised"
	knownBroken = "broken"
	wrong       = "failed"
)

func (s *suite) record(b Harness, sentence Clause, found, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := Outcome{Strategy: b.Name, Sentence: sentence.Name, Found: found, Why: why}
	if sentence.Name == "Traces" && found == passed {
		o.Keeps = b.Keeps
	}
	s.outcomes = append(s.outcomes, o)
}

// write puts the outcomes into a file of dir, if there is a dir. Each package has its own file: go test runs several at once.
func (s *suite) write(dir string) error {
	if dir == "" || len(s.outcomes) == 0 {
		return nil
	}
	text, err := json.MarshalIndent(s.outcomes, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.outcomes[0].Strategy+".json"), text, 0o644)
}
