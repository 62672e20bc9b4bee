package lock

import "time"

// Linger is for drivers whose server does not free a key by itself, once, before the lease is handed out: what
// Abandon leaves taken is given back by the driver's free after d. It should be as long as the key of a crashed
// holder would stay taken, or longer. Nothing waits for the end of d: free must tolerate that the lock has been
// closed.
func (l *Lease) Linger(d time.Duration) {
	l.leave = func() { time.AfterFunc(d, func() { _ = l.giveBack() }) }
}
