package app

import (
	"io"
	"sync"
	"sync/atomic"
)

// maxLog limits the unwritten lines of the log, in bytes: some 4,000 lines.
const maxLog = 1 << 20

// A LogWriter writes lines in the background, so that requests do not wait for a disk or a pipe. It writes the first
// line at once. Lines that arrive during a write are written together in the next write.
//
// Lines beyond maxLog are dropped and counted, because a pipe without a reader must not block sales. Lines stay in
// order. A process that is killed loses its unwritten lines. A LogWriter is safe for concurrent use.
type LogWriter struct {
	out     io.Writer
	dropped atomic.Uint64

	mu     sync.Mutex
	lines  []byte // unwritten
	closed bool

	wake  chan struct{}
	ended chan struct{}
}

// NewLogWriter returns a LogWriter on out. The caller must close it.
func NewLogWriter(out io.Writer) *LogWriter {
	w := &LogWriter{out: out, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	go w.run()
	return w
}

// Write queues one line, and never fails. After Close it writes the line directly.
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
	default: // the goroutine will wake anyway
	}
	return len(line), nil
}

// Dropped returns the number of dropped lines.
func (w *LogWriter) Dropped() uint64 { return w.dropped.Load() }

// Close writes the queued lines and ends the goroutine. It may be called twice.
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
			_, _ = w.out.Write(batch) // there is no place to report errors of the log
		}
	}
}
