package scenario

import (
	"strings"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The variants of a holder whose lease ends while it works. Those of single scenarios have one of the first three as
// their end, or else A heeds the loss.
const (
	heedsLoss   = "heeds-the-loss"
	ignoresLoss = "ignores-the-loss"
	noFence     = "ignores-the-loss-no-fence"
	renews      = "renewed"
)

// lateRequest returns the request of A in a variant.
func lateRequest(variant string) lab.Request {
	return lab.Request{
		Pause:      []string{lab.BeforeWrite},
		IgnoreLoss: strings.HasSuffix(variant, ignoresLoss) || strings.HasSuffix(variant, noFence),
		Unfenced:   strings.HasSuffix(variant, noFence),
	}
}

// lateVerdict judges A, whose lease ended, and B, which sold the last unit meanwhile.
func lateVerdict(b *lab.Testbed, a *lab.Call) lab.Outcome {
	reply := a.Reply()
	for _, c := range b.Calls() {
		// If a server timed out, this run proves nothing about the lock.
		b.Require(c == a || c.Reply().Problem != "backend_down", c.Who+" is not told that a server is down")
	}
	switch j := b.Judge(); {
	case j.Lost():
		return lab.Oversells
	case reply.Problem == "lock_lost" || reply.Problem == "stale_fence":
		return lab.Refuses
	case reply.Outcome == loadtest.Accepted:
		return lab.Safe
	default:
		b.Fatalf("A was answered %s, which is no outcome of this scenario", lab.Told(reply))
		panic("unreachable")
	}
}

// afterTheLease waits for the reply to B, who asks while A works for longer than its lease. Then it resumes A.
func afterTheLease(b *lab.Testbed) lab.Outcome {
	a, next := b.Calls()[0], b.Calls()[1]
	busy, took := next.Reply().Outcome == loadtest.Busy, next.Took()
	if busy {
		b.Evidence(lab.Waited, took, "kept-out-past-lease", "for", took)
	} else {
		b.Evidence(lab.Waited, took, "let-in-before-write", "after", took)
	}
	if b.Case.Variant != heedsLoss {
		a.Go()
	}
	return lateVerdict(b, a)
}
