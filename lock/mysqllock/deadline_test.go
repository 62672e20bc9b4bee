package mysqllock

import (
	"strings"
	"testing"
	"time"
)

// The holder's time limit counts from before the request that was granted, and not from its answer: the server's
// clock began to run somewhere in between. Here the request is held up for 1.2 s, and then nothing is heard any more.
func TestTheLimitCountsFromBeforeTheRequest(t *testing.T) {
	each(t, all, func(t *testing.T, k kind) {
		dsn := database(t)
		p := newProxy(t, addr(dsn))
		const lease, delay = 4 * time.Second, 1200 * time.Millisecond
		l := k.open(t, via(dsn, p), lease)
		release(t, acquire(t, l, "k"))
		granting := map[string]string{
			table.name: "UPDATE locks SET token", forUpdate.name: "UPDATE lock_rows", getLock.name: "INTO lock_fences",
		}
		granted := false
		p.obey(func(_ int, request string) fate {
			switch {
			case granted:
				return drop
			case strings.Contains(request, granting[k.name]):
				granted = true
				time.AfterFunc(delay, func() { close(p.onward) })
				return late
			}
			return pass
		})
		asked := time.Now()
		held := acquire(t, l, "k")
		if got := time.Since(asked); got < delay {
			t.Fatalf("granted after %v: nothing was held up", got)
		}
		_ = loss(t, held)
		if took := time.Since(asked); took > lease+delay/2 {
			t.Errorf("told of the loss %v after it asked, and the lease is %v", took, lease)
		}
	})
}
