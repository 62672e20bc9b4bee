package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// relays has an instance that relays events to a webhook, through proxies. startSecond adds another one, without.
type relays struct {
	*lab.Shop
	first    *lab.App
	receiver *lab.Receiver
	sink     *wire.Proxy // in front of the receiver, for the first relay
}

// openRelays starts the first instance.
func openRelays(b *lab.Testbed) *relays {
	receiver := b.Receive(nil)
	sink := b.ProxyTo(receiver.Addr(), wire.Protocol{})
	r := &relays{b.Shop(1, append(lab.Webhook(sink.Addr()), b.ThroughProxy())...), nil, receiver, sink}
	r.Retire()
	r.first = r.Apps[0]
	return r
}

// startSecond starts the second instance.
func (r *relays) startSecond() *lab.App { return r.Join(1, lab.Webhook(r.receiver.Addr())...)[0] }

// await waits until an event of a SKU was sent to the consumer.
func (r *relays) await(b *lab.Testbed, suffix string) {
	b.Eventually("the consumer has been sent the event", func() bool { return len(r.receiver.Numbers(suffix)) > 0 })
}

// verdict judges which of the events 1 to last were sent to the consumer, and in which order, as its inbox takes them:
// delivery is at least once.
func (r *relays) verdict(last uint64) lab.Outcome {
	got := once(r.receiver.Await("", last))
	_, sound := r.Judge()
	var want []uint64
	for n := range last {
		want = append(want, n+1)
	}
	switch {
	case !sound:
		return lab.Oversells
	case slices.Equal(got, want):
		return lab.Safe
	case !slices.IsSorted(got):
		return lab.Reorders
	}
	return lab.Loses
}

// once removes repeats.
func once(numbers []uint64) (first []uint64) {
	for _, n := range numbers {
		if !slices.Contains(first, n) {
			first = append(first, n)
		}
	}
	return first
}
