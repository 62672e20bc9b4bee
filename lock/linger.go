package lock

import "time"

// Linger is for drivers whose server does not free a key by itself. A driver calls it once, before the caller has the
// lease. After Abandon the key stays taken for d, and then the driver's free is called. d should be at least as long as
// the key of a crashed holder would stay taken. The lock may be closed before d has passed, so free must tolerate a
// closed lock.
func (l *Lease) Linger(d time.Duration) {
	l.leave = func() {
		time.AfterFunc(d, func() { _ = l.giveBack(ReleaseTimeout) })
	}
}
