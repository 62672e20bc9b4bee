package app

import (
	"io"
	"sync"
	"sync/atomic"
)

// maxLog bounds the lines of the log that wait to be written, in bytes: some 4,000 lines.
const maxLog = 1 << 20

// A LogWriter writes lines in the background: a request does not wait for the disk or the pipe that takes its line, and
// lines that come together are written together. Nothing waits for company: the first line is written at once, and those
// that come meanwhile are the next write.
//
// Lines that find no room are dropped and counted: a pipe that nobody reads must not stop the sales. What is written
// stays in order. A process that is killed loses what waits. It is safe for concurrent use.
type LogWriter struct {
	out     io.Writer
	dropped atomic.Uint64

	mu     sync.Mutex
	lines  []byte // that wait
	closed bool

	wake  chan struct{}
	ended chan struct{}
}

// NewLogWriter returns a LogWriter on out. The caller closes it.
func NewLogWriter(out io.Writer) *LogWriter {
	w := &LogWriter{out: out, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write takes one line. It does not fail. After Close it writes the line itself.
func (w *LogWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.out.Write(line)
	}
	if len(w.lines)+len(line) > maxLog {
		w.dropped.Add(1)
		return len(line), nil
	}
	w.lines = append(w.lines, line...)
	select {
	case w.wake <- struct{}{}:
	default: // it will look
	}
	return len(line), nil
}

// Dropped returns how many lines found no room.
func (w *LogWriter) Dropped() uint64 { return w.dropped.Load() }

// Close writes what waits, and ends the background. It may be called twice.
func (w *LogWriter) Close() error {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.wake)
	}
	w.mu.Unlock()
	<-w.ended
	return nil
}

func (w *LogWriter) run() {
	defer close(w.ended)
	var batch []byte
	for open := true; open; {
		_, open = <-w.wake
		w.mu.Lock()
		batch, w.lines = w.lines, batch[:0]
		w.mu.Unlock()
		if len(batch) > 0 {
			_, _ = w.out.Write(batch) // there is nobody to tell
		}
	}
}
