package wire

import (
	"runtime"
	"time"
)

// A pacer wakes waiters on time. A timer of the Go runtime may be a millisecond late in an idle process, so the pacer's
// thread sleeps in the kernel. All messages of a direction have the same delay and are due in order of arrival, so one
// queue and one thread suffice for all connections.
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
	runtime.LockOSThread() // never unlocked, so that the thread, with its changed timer slack, ends with this goroutine
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

// sleep returns false if the pacer ends before due. A sleep in the kernel cannot be interrupted, so only the last part
// is slept there.
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
