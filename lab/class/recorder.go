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

// A recorder writes the events of each run to a separate file, as JSON lines. Events between two runs, such as the
// restart of a server, belong to the earlier run.
type recorder struct {
	dir string

	mu     sync.Mutex
	file   *os.File
	lines  *bufio.Writer
	failed error // the first error
}

func newRecorder(dir string) *recorder { return &recorder{dir: dir} }

// begin begins the file of a run with the states of the servers.
func (r *recorder) begin(e RunEvent, standing []RunEvent) {
	if r.dir == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(r.finish())
	r.keep(r.open(e))
	for _, state := range standing {
		r.line(state)
	}
}

// write writes an event to the run's file.
func (r *recorder) write(e RunEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.line(e)
}

func (r *recorder) keep(err error) {
	if r.failed == nil {
		r.failed = err
	}
}

func (r *recorder) open(e RunEvent) (err error) {
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	began := time.UnixMicro(e.At).Format("20060102-150405")
	name := fmt.Sprintf("%s-%d-%s-%s.jsonl", began, e.Run, e.Plan.Strategy, e.Plan.Store)
	if r.file, err = os.Create(filepath.Join(r.dir, name)); err != nil {
		return err
	}
	r.lines = bufio.NewWriter(r.file)
	return nil
}

// line writes a line, if there is a file.
func (r *recorder) line(e RunEvent) {
	if r.lines == nil {
		return
	}
	text, err := json.Marshal(e)
	if err == nil {
		_, err = r.lines.Write(append(text, '\n'))
	}
	r.keep(err)
}

func (r *recorder) finish() error {
	if r.file == nil {
		return nil
	}
	err := errors.Join(r.lines.Flush(), r.file.Close())
	r.file, r.lines = nil, nil
	return err
}

// read returns the file of the current run.
func (r *recorder) read() ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil, errNoTape
	}
	if err := r.lines.Flush(); err != nil {
		return nil, err
	}
	return os.ReadFile(r.file.Name())
}

var errNoTape = errors.New("no run is kept")

// close closes the last file. It returns the first error of all files.
func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(r.finish())
	if r.failed != nil {
		return fmt.Errorf("keep the runs: %w", r.failed)
	}
	return nil
}
