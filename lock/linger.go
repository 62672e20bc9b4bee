package lock

import "time"

// Linger is for drivers whose server does not free a key by itself. A driver calls it once, before the caller has the
// lease. After Abandon the key stays taken for d, and then the driver's free is called. d should be at least as long
// as the key of a crashed holder would stay taken. Nothing waits for the end of d, so free must tolerate that the
// lock has been closed.
func (l *Lease) Linger(d time.Duration) {
	l.leave = func() { time.AfterFunc(d, func() { _ = l.giveBack() }) }
}
