package scenario

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func batchUnknown() lab.Scenario {
	return lab.Scenario{
		Name: "batch-outcome-unknown", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Duplicates, "sends-the-batch-again"),
				byHand("fixed", lab.Safe, "asks-again-by-id"),
			},
			onBoth(lab.Safe, replyLost, "merged"),
			onBoth(lab.Safe, requestLost, "merged"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != "" {
				return pipelineWithoutAnswer(b)
			}
			h := holdABatch(b, 100)
			do := wire.CutReply
			if b.Case.Variant == requestLost {
				do = wire.Cut
			}
			snare := b.Trap(h.proxy, wire.Trap{On: wire.ToServer, Do: do, Match: h.lastMessage()})
			h.letGo()
			b.Sprung(snare, b.Case.Variant)
			b.Require(answered(h.crowd, "outcome_unknown") == crowd, "all of the batch are told that it is not known")
			found := 0
			for _, c := range h.crowd {
				if c.Settle() {
					found++
				}
			}
			b.Require(found == crowd || found == 0, "either all of the batch were written, or none")
			if found == 0 {
				again := come(b, h.apps[1], "again", crowd)
				b.Require(answered(again, string(loadtest.Accepted)) == crowd, "all ask again, and are served")
			}
			j := b.Judge()
			counted(b, len(j.Orders), crowd+2)
			if len(j.Orders) != crowd+2 || j.Lost() {
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}

// pipelineWithoutAnswer sells a unit to each of a crowd in one pipeline, and the reply is lost. The naive client sends
// the pipeline again, because retries after a network error are on by default. The fixed code turns retries off, and
// gives each order an id: it sells an order only if its id is not in the store.
func pipelineWithoutAnswer(b *lab.Testbed) lab.Outcome {
	p := b.Proxy(lab.NeedRedis)
	stock, orders := "{"+b.SKU+"}:stock", "{"+b.SKU+"}:orders"
	retries, script := 1, `redis.call('HINCRBY', KEYS[2], ARGV[1], 1) return redis.call('DECR', KEYS[1])`
	if b.Case.Code == "fixed" {
		retries, script = -1, `if redis.call('HSETNX', KEYS[2], ARGV[1], 1) == 0 then return 'sold before' end
			return redis.call('DECR', KEYS[1])`
	}
	c := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: retries, ReadTimeout: lab.Patience})
	b.Defer(func() { _ = c.Close() })
	b.Must("SET", b.Redis().Set(b.Ctx, stock, 100, longLease).Err())
	sell := func() error {
		_, err := c.Pipelined(b.Ctx, func(pipe redis.Pipeliner) error {
			for i := range crowd {
				pipe.Eval(b.Ctx, script, []string{stock, orders}, naiveOrder(i))
			}
			return nil
		})
		return err
	}
	b.Must("PING", c.Ping(b.Ctx).Err())
	last := wire.Contains(naiveOrder(crowd - 1))
	snare := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: last})
	err := sell()
	b.Sprung(snare, replyLost)
	if b.Case.Code == "naive" {
		b.Must("the pipeline", err)
		b.Evidence(lab.Answer, nil, "pipeline-was-sent-again")
	} else {
		b.Require(err != nil, "the client tells that it has no reply")
		b.Evidence(lab.Answer, err.Error(), "was-told", "who", "C", "answer", err)
		b.Must("ask again, with the same ids", sell())
	}
	left, err := b.Redis().Get(b.Ctx, stock).Int()
	b.Must("GET", err)
	b.Must("DEL", b.Redis().Del(b.Ctx, orders).Err())
	b.Evidence(lab.Balance, left, "balance", "initial", 100, "sold", 100-left, "left", left)
	counted(b, 100-left, crowd)
	if 100-left != crowd {
		return lab.Duplicates
	}
	return lab.Safe
}
