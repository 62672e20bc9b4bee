package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// The variants: the sink of the events.
const (
	toStreams = "to-redis-streams"
	toWebhook = "to-a-webhook"
)

// relays has an instance that relays events, through proxies. startSecond adds another one, without.
type relays struct {
	*lab.Shop
	first    *lab.App
	receiver *lab.Receiver // nil: Redis Streams
	sink     *wire.Proxy   // the proxy in front of the first relay's sink
	env      []string      // of the second relay
}

// openRelays starts the first instance.
func openRelays(b *lab.Testbed) *relays {
	r := new(relays)
	var first []string
	if b.Case.Variant == toWebhook {
		r.receiver = b.Receive(nil)
		p, err := wire.Listen(r.receiver.Addr(), wire.Protocol{})
		b.Must("a proxy before the webhook", err)
		b.Defer(func() { _ = p.Close() })
		r.sink, first, r.env = p, lab.Webhook(p.Addr()), lab.Webhook(r.receiver.Addr())
	} else {
		r.sink = b.Proxy(lab.NeedRedis)
		first, r.env = b.Streams(r.sink.Addr()), b.Streams(b.Server(lab.NeedRedis).Addr)
	}
	r.Shop = b.Shop(1, append(first, b.ThroughProxy())...)
	r.Retire()
	r.first = r.Apps[0]
	return r
}

// startSecond starts the second instance.
func (r *relays) startSecond() *lab.App { return r.Join(1, r.env...)[0] }

// published returns the numbers of a SKU's events sent to the consumer so far.
func (r *relays) published(b *lab.Testbed, suffix string) []uint64 {
	if r.receiver != nil {
		return r.receiver.Numbers(suffix)
	}
	return b.Stream(suffix)
}

// await waits until n events of a SKU were sent to the consumer.
func (r *relays) await(b *lab.Testbed, suffix string, n int) {
	b.Eventually("the consumer has been sent the events", func() bool { return len(r.published(b, suffix)) >= n })
}

// verdict judges which of the events 1 to last were sent to the consumer, and in which order, as its inbox takes them:
// delivery is at least once.
func (r *relays) verdict(b *lab.Testbed, last uint64) lab.Observation {
	var got []uint64
	if r.receiver != nil {
		got = once(r.receiver.Await("", last))
	} else {
		got = once(b.Entries(last))
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
