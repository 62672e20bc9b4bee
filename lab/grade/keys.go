package grade

import "errors"

// twoKeys lets two contenders take two keys in opposite orders. Both waits must end; afterwards both keys must be free.
func twoKeys(b *bed) verdict {
	a, other := b.contender(spec{name: "A", lease: longLease}), b.contender(spec{name: "B", lease: longLease})
	x, y := b.key(), b.key()
	wait := max(b.o.Lease/2, moment)
	heldX := a.first(x)
	heldY := other.get(y, wait)
	if !heldY.ok() {
		// One lock for all keys cannot deadlock with itself in two processes, but its holder may wait for itself.
		a.note(say("event.one-lock", "who", other.name))
	}
	aWantsY := a.begin(y, wait)
	var bGetsX grant
	if heldY.ok() {
		bGetsX = other.ask(x, wait)
	}
	aGetsY := <-aWantsY
	for _, g := range []grant{heldY, bGetsX, aGetsY} {
		var wrong *protocolError
		switch {
		case errors.As(g.err, &wrong):
			b.fail(g.err)
		case errors.Is(g.err, errSilent):
			return verdict{Blocks, say("why.wait-ignored", "wait", wait, "within", b.o.Grace+wait)}
		case g.err != nil:
			b.fail(g.err)
		}
	}
	// Whoever has both keys sells.
	for _, each := range []struct {
		by          *contender
		first, both grant
	}{{a, heldX, aGetsY}, {other, heldY, bGetsX}} {
		each.by.fence = 0 // fences of two keys cannot be compared
		if each.both.ok() {
			each.by.write(each.by.read())
			each.by.giveBack(each.both)
		}
		if each.first.ok() {
			each.by.giveBack(each.first)
		}
	}
	again := a.mustGet(x, b.o.Wait, "why.released-blocks")
	second := a.mustGet(y, b.o.Wait, "why.keys-block")
	a.fence = 0
	a.write(a.read())
	a.giveBack(second)
	a.giveBack(again)
	return b.outcome(verdict{Holds, say("why.keys-hold", "wait", wait)})
}
