package wire

import (
	"runtime"
	"time"
)

// A pacer wakes those that wait for a moment, on time. A timer of the Go runtime may be a millisecond late in a process
// with nothing else to do, so the pacer's thread sleeps in the kernel. As the delay of a direction is the same for all,
// what came first is due first: one queue and one thread are enough for all connections.
type pacer struct {
	queue chan wakeup
	end   <-chan struct{} // ends run
}

// A wakeup closes now when it is due.
type wakeup struct {
	due time.Time
	now chan struct{}
}

func newPacer(end <-chan struct{}) *pacer { return &pacer{queue: make(chan wakeup, 1<<10), end: end} }

func (p *pacer) run() {
	runtime.LockOSThread() // for good: the thread's timers are changed, so it ends with this goroutine
	sharpTimers()
	for {
		select {
		case w := <-p.queue:
			if !p.sleep(w.due) {
				return
			}
			close(w.now)
		case <-p.end:
			return
		}
	}
}

// sleep returns false if the pacer ends before due. It cannot be interrupted in the kernel, so only the rest is slept
// there.
func (p *pacer) sleep(due time.Time) bool {
	const inKernel = 2 * time.Millisecond
	if early := time.Until(due) - inKernel; early > 0 {
		timer := time.NewTimer(early)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-p.end:
			return false
		}
	}
	sleepUntil(due)
	return true
}

// wait waits until due. It returns false if done is closed before.
func (p *pacer) wait(due time.Time, done <-chan struct{}) bool {
	w := wakeup{due, make(chan struct{})}
	select {
	case p.queue <- w:
	case <-done:
		return false
	}
	select {
	case <-w.now:
		return true
	case <-done:
		return false
	}
}
