package scenario

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
)

// reEntryCount shows that a count of re-entries in the value of a key must not be changed by read, think, write.
func reEntryCount() lab.Scenario {
	const short, long = time.Second, 2 * lab.Patience
	return lab.Scenario{
		Name: "re-entry-count-in-the-value", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "json-get-then-set"),
			byHand("fixed", lab.Safe, "a-hash-and-a-script"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code == "fixed" {
				a, other := hashLock{b, "A", "process-1:1"}, hashLock{b, "B", "process-2:1"}
				b.Require(a.enter(short) == 1, "A gets the lock")
				b.Eventually("A's lease ends, and B gets the lock", func() bool { return other.enter(long) == 1 })
				b.Require(a.enter(long) == 0, "A does not enter again")
				b.Evidence(lab.Hold, nil, "re-entry-is-refused")
				return lab.Safe
			}
			a, other := jsonLock{b, "A", "process-1:1"}, jsonLock{b, "B", "process-2:1"}
			var found holder
			b.Eventually("A finds its own value", func() bool { // its lease may end before the GET
				b.Must("DEL", b.Redis().Del(b.Ctx, b.SKU).Err())
				b.Require(a.lock(short), "A gets the lock")
				found = a.get()
				return found.Owner == a.owner
			})
			b.Note("A", "get-is-mine")
			b.Eventually("A's lease ends, and B gets the lock", func() bool { return other.lock(long) })
			found.Count++
			a.set(found, long)
			now := a.get()
			b.Evidence(lab.Hold, now, "value-is-overwritten", "owner", now.Owner, "count", now.Count)
			b.Require(now.Owner == a.owner, "the value is that of A")
			return bothSell(b, "A", "B")
		},
	}
}

// A holder is the value of a jsonLock.
type holder struct {
	Owner string `json:"owner"`
	Count int    `json:"count"`
}

// A jsonLock has its holder and the count of its entries as JSON in the value.
type jsonLock struct {
	b          *lab.Testbed
	who, owner string
}

func (l jsonLock) lock(lease time.Duration) bool {
	value, err := json.Marshal(holder{l.owner, 1})
	l.b.Must("JSON", err)
	return (&naiveLock{l.b, l.who, l.b.Redis(), l.b.SKU, string(value), lease}).takes()
}

func (l jsonLock) get() (h holder) {
	value, err := l.b.Redis().Get(l.b.Ctx, l.b.SKU).Bytes()
	if errors.Is(err, redis.Nil) {
		return h
	}
	l.b.Must("GET", err)
	l.b.Must("JSON", json.Unmarshal(value, &h))
	return h
}

func (l jsonLock) set(h holder, lease time.Duration) {
	value, err := json.Marshal(h)
	l.b.Must("JSON", err)
	l.b.Must("SET", l.b.Redis().Set(l.b.Ctx, l.b.SKU, value, lease).Err())
	l.b.Statement(l.who, "redis", "SET "+string(value))
}
