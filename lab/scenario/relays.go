package scenario

import (
	"slices"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lab"
)

// relays is a pair whose first instance also relays events, through proxies. startSecond adds another relay.
type relays struct {
	pair
	receiver *lab.Receiver // nil: Redis Streams
	sink     *wire.Proxy   // the proxy in front of the first relay's sink
	env      []string
}

// openRelays starts the two instances.
func openRelays(b *lab.Testbed) *relays {
	r := &relays{env: lab.Relay(relayLease), sink: b.Proxy(lab.NeedRedis)}
	first := append(slices.Clone(r.env), b.Via(lab.NeedRedis))
	if b.Store() == "mysql" {
		first = append(first, b.Via(lab.NeedMySQL))
	}
	if b.Case.Variant == toWebhook {
		r.receiver = b.Receive(nil)
		p, err := wire.Listen(r.receiver.Addr(), wire.Protocol{})
		b.Must("a proxy before the webhook", err)
		b.Defer(func() { _ = p.Close() })
		r.sink, first = p, append(first, lab.Webhook(p.Addr())...)
		r.env = append(r.env, lab.Webhook(r.receiver.Addr())...)
	}
	s := b.Shop(1, first...)
	s.Retire()
	r.pair = pair{s, s.Apps[0], s.Join(1)[0]}
	return r
}

// startSecond starts a third instance, which also relays. It waits for the lock until the lease of the first ends.
func (r *relays) startSecond(b *lab.Testbed) {
	app := r.Join(1, r.env...)[0]
	b.Note(app.Name, "relay-waits-for-the-lock")
}

// published returns the numbers of the events sent to the consumer so far.
func (r *relays) published(b *lab.Testbed) []uint64 {
	if r.receiver != nil {
		return r.receiver.Numbers("")
	}
	return b.Stream()
}

// await waits until n events were sent to the consumer.
func (r *relays) await(b *lab.Testbed, n int) {
	b.Eventually("the consumer has been sent the events", func() bool { return len(r.published(b)) >= n })
}

// verdict judges which of the events 1 to last were sent to the consumer, and in which order.
func (r *relays) verdict(b *lab.Testbed, last uint64) lab.Observation {
	var got []uint64
	if r.receiver != nil {
		got = r.receiver.Await("", last)
		got = once(got) // as the consumer's inbox does
	} else {
		got = b.Entries(last)
	}
	_, sound := r.Judge()
	var want []uint64
	for n := range last {
		want = append(want, n+1)
	}
	switch {
	case !sound:
		return lab.Oversells.Seen()
	case slices.Equal(got, want):
		return lab.Safe.Seen()
	case !slices.IsSorted(got):
		return lab.Reorders.Seen()
	case uint64(len(got)) > last:
		return lab.Duplicates.Seen()
	}
	return lab.Loses.Seen()
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
