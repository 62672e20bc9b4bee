package server

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// A Process is a program of a user, in a process group of its own. Its standard input, output and error are pipes.
// Nothing reads or writes them on its own: a program that prints without end fills its pipe and stops. Its methods are
// safe for concurrent use.
type Process struct {
	In, Out, Err *os.File // our ends; their deadlines can be set

	child *child
	close sync.Once
}

// StartProcess starts argv with the environment env. argv[0] is looked for on PATH. See KillStrays for what the program
// leaves outside its group.
func StartProcess(argv, env []string) (p *Process, err error) {
	var pipes []*os.File
	defer func() {
		for _, file := range pipes {
			if err != nil {
				file.Close()
			}
		}
	}()
	pipe := func() (r, w *os.File) {
		if err == nil {
			r, w, err = os.Pipe()
			pipes = append(pipes, r, w)
		}
		return r, w
	}
	in, ourIn := pipe()
	ourOut, out := pipe()
	ourErr, errs := pipe()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	// The program gets files. With other readers and writers, package exec would need a goroutine for each.
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, in, out, errs
	p = &Process{In: ourIn, Out: ourOut, Err: ourErr}
	if err = adopt(); err != nil {
		return nil, err
	}
	if p.child, err = begin(cmd, syscall.SIGKILL); err != nil {
		return nil, err
	}
	in.Close()
	out.Close()
	errs.Close()
	return p, nil
}

// Pause suspends the whole group (SIGSTOP) and returns when its leader has stopped.
func (p *Process) Pause() error { return p.child.Signal(syscall.SIGSTOP) }

// Resume resumes the whole group.
func (p *Process) Resume() error { return p.child.Signal(syscall.SIGCONT) }

// Kill ends the whole group at once (SIGKILL) and returns when its leader is gone. It is idempotent.
func (p *Process) Kill() error {
	err := p.child.Signal(syscall.SIGKILL)
	if errors.Is(err, errNotRunning) {
		err = nil
	}
	if err == nil {
		<-p.child.exit
	}
	return err
}

// Exited returns a channel that is closed when the leader has ended and what it left in its group was killed.
func (p *Process) Exited() <-chan struct{} { return p.child.exit }

// Outcome returns how the leader ended. It must be called after that.
func (p *Process) Outcome() string { return p.child.Outcome() }

// Close kills the group and closes the pipes, even those that a stray descendant still has open. It is idempotent.
func (p *Process) Close() (err error) {
	p.close.Do(func() { err = errors.Join(p.Kill(), p.In.Close(), p.Out.Close(), p.Err.Close()) })
	return err
}
