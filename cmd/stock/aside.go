package main

import (
	"io"
	"time"
)

// asideLimit is how long the end of an aside waits for output that is stuck.
const asideLimit = 5 * time.Second

// An aside prints lines for a caller that must not wait: the output may be a full pipe, or a terminal after Ctrl-S.
type aside struct {
	lines chan string
	done  chan struct{}
}

func newAside(w io.Writer) *aside {
	a := &aside{make(chan string, 16), make(chan struct{})}
	go func() {
		defer close(a.done)
		for line := range a.lines {
			_, _ = io.WriteString(w, line+"\n") // nobody could be told of the error
		}
	}()
	return a
}

// print drops the line if many others are stuck.
func (a *aside) print(line string) {
	select {
	case a.lines <- line:
	default:
	}
}

// end waits for what is printed, but not for long. Output that is stuck ends with the process.
func (a *aside) end() {
	close(a.lines)
	select {
	case <-a.done:
	case <-time.After(asideLimit):
	}
}
