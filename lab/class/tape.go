package class

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A tape writes the events of each run to a separate file, as JSON lines. Events between two runs, such as the restart
// of a server, belong to the earlier run.
type tape struct {
	dir string

	mu     sync.Mutex
	file   *os.File
	lines  *bufio.Writer
	before []RunEvent // states of servers, with which each file begins
	failed error      // the first error
}

func newTape(dir string) *tape { return &tape{dir: dir} }

// write writes an event to the run's file.
func (t *tape) write(e RunEvent) {
	if t.dir == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e.Kind == standing {
		kept := t.before[:0:0]
		for _, b := range t.before {
			if b.Server != e.Server {
				kept = append(kept, b)
			}
		}
		t.before = append(kept, e)
	}
	if e.Kind == runBegan {
		t.keep(t.finish())
		t.keep(t.begin(e))
	}
	if t.lines != nil {
		t.keep(t.line(e))
	}
}

func (t *tape) keep(err error) {
	if t.failed == nil {
		t.failed = err
	}
}

func (t *tape) begin(e RunEvent) (err error) {
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	began := time.UnixMicro(e.At).Format("20060102-150405")
	name := fmt.Sprintf("%s-%d-%s-%s.jsonl", began, e.Run, e.Plan.Strategy, e.Plan.Store)
	if t.file, err = os.Create(filepath.Join(t.dir, name)); err != nil {
		return err
	}
	t.lines = bufio.NewWriter(t.file)
	for _, b := range t.before {
		if err := t.line(b); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) line(e RunEvent) error {
	text, err := json.Marshal(e)
	if err == nil {
		_, err = t.lines.Write(append(text, '\n'))
	}
	return err
}

func (t *tape) finish() error {
	if t.file == nil {
		return nil
	}
	err := errors.Join(t.lines.Flush(), t.file.Close())
	t.file, t.lines = nil, nil
	return err
}

// read returns the file of the current run.
func (t *tape) read() ([]byte, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file == nil {
		return nil, errNoTape
	}
	if err := t.lines.Flush(); err != nil {
		return nil, err
	}
	return os.ReadFile(t.file.Name())
}

var errNoTape = errors.New("no run is kept")

// close closes the last file. It returns the first error of all files.
func (t *tape) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keep(t.finish())
	if t.failed != nil {
		return fmt.Errorf("keep the runs: %w", t.failed)
	}
	return nil
}
