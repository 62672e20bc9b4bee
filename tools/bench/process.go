package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"

	"example.com/stock/tools/bench/rig"
)

// A workerProcess is one process of contenders, for its parent.
type workerProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	said   bytes.Buffer // on stderr
	waited bool
	before float64 // CPU time in µs that it had used at the start
}

func startWorker(cmd *exec.Cmd) (*workerProcess, error) {
	w := &workerProcess{cmd: cmd}
	var err error
	if w.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	cmd.Stderr = &w.said
	return w, cmd.Start()
}

func (w *workerProcess) ready() error {
	line, err := w.out.ReadString('\n')
	if err != nil || line != "ready\n" {
		return w.died("before it was ready", err)
	}
	return nil
}

// start starts the measurement. If the worker has died, report says so.
func (w *workerProcess) start() {
	w.before, _ = rig.ProcessTime(w.cmd.Process.Pid)
	_, _ = io.WriteString(w.in, "\n")
}

// used returns the CPU time in µs since start, once it has ended.
func (w *workerProcess) used() float64 {
	state := w.cmd.ProcessState
	if state == nil || w.before == 0 {
		return 0
	}
	return float64((state.UserTime() + state.SystemTime()).Microseconds()) - w.before
}

func (w *workerProcess) report() (report, error) {
	var r report
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		return r, w.died("before it reported", err)
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return r, fmt.Errorf("read the report of a worker: %w", err)
	}
	return r, nil
}

func (w *workerProcess) died(when string, err error) error {
	w.in.Close()
	w.waited = true
	exit := w.cmd.Wait()
	return fmt.Errorf("worker ended %s: %v, %v: %.500s", when, err, exit, bytes.TrimSpace(w.said.Bytes()))
}

// end ends a worker and waits for it. A worker that has reported ends by itself; another notices that its input has
// ended. The ctx of its command kills one that does neither.
func (w *workerProcess) end() {
	if w.waited {
		return
	}
	w.waited = true
	w.in.Close()
	_ = w.cmd.Wait()
}
