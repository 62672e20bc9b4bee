package handler

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"example.com/stock/service"
)

// The reply to a sale is written by hand, and is to the byte what encoding/json makes of it.
func TestTheReplyIsWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "stock", "0192b6f4-0000-7000-8000", `a"b\c`, "a<b>&c", "库存", "\u2028\x7f\x01", "\xff"}
	text := func() string { return texts[r.IntN(len(texts))] }
	number := func() int64 { return []int64{0, 1, 2, -1, 1 << 62, r.Int64()}[r.IntN(6)] }
	ms := func() float64 {
		return milliseconds([]time.Duration{
			0, time.Microsecond, -time.Microsecond, time.Second, time.Duration(r.Int64()), time.Duration(r.IntN(1e10)),
		}[r.IntN(6)])
	}
	at := func() time.Time {
		whole := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		some := time.Duration(r.IntN(1e9))
		return []time.Time{{}, whole, whole.Add(120 * time.Millisecond), whole.Add(some)}[r.IntN(4)]
	}
	filled := map[string]bool{}
	for range 5000 {
		reply := deductReply{
			OrderID: text(), SKU: service.SKU(text()), Quantity: number(), Read: number(), Remaining: number(),
			Version: r.Uint64(), Epoch: uint64(r.IntN(3)), Strategy: text(), Store: text(), Instance: text(),
			Fence: r.Uint64() >> r.IntN(64), Segment: r.IntN(3), Tries: r.IntN(3), Wakeups: r.IntN(3),
			WaitedMS: ms(), HeldMS: ms(), AcquiredAt: at(), ReadAt: at(), WrittenAt: at(), ReleasedAt: at(),
			LeaseLost: r.IntN(2) == 0,
		}
		if r.IntN(2) == 0 {
			reply.Batch = &batchReply{text(), r.IntN(128), r.IntN(128)}
		}
		for field, value := range reflect.ValueOf(reply).Fields() {
			filled[field.Name] = filled[field.Name] || !value.IsZero()
		}
		want, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if got := reply.append(nil); string(got) != string(want) {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
	for field := range reflect.TypeFor[deductReply]().Fields() {
		if !filled[field.Name] {
			t.Errorf("%s is not tried", field.Name)
		}
	}
}

// BenchmarkReply is why the reply is written by hand.
func BenchmarkReply(b *testing.B) {
	now := time.Now().UTC()
	reply := deductReply{
		OrderID: "0192b6f4-0000-7000-8000-000000000000", SKU: "stock", Quantity: 1, Read: 10, Remaining: 9, Version: 7,
		Epoch: 1, Strategy: "merged", Store: "redis", Instance: "app-1", WaitedMS: 1.234, HeldMS: .567, AcquiredAt: now,
		ReadAt: now, WrittenAt: now, ReleasedAt: now, Batch: &batchReply{"0192b6f4-0000-7000-8000-000000000000", 2, 30},
	}
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = reply.append(make([]byte, 0, 768))
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = json.Marshal(reply)
		}
	})
}
