package lock_test

import (
	"context"
	"testing"
	"time"

	"example.com/stock/lock"
)

// prompt is a lock that costs nothing, is always free, and is renewed.
type prompt struct{ fence lock.Fence }

func (*prompt) FenceRange() uint64 { return 8 }

func (p *prompt) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	p.fence += 8
	l, _ := lock.NewLease(key, p.fence, func(context.Context) error { return nil })
	l.KeepAlive(time.Now(), lock.Renewal{TTL: time.Minute, Every: 20 * time.Second})
	return l, nil
}

// BenchmarkHandOverAlone is what HandOver and Do add to a lock that costs nothing and that nobody else wants.
func BenchmarkHandOverAlone(b *testing.B) {
	for name, l := range map[string]lock.Locker{
		"plain": &prompt{}, "hand-over": lock.HandOver(&prompt{}, lock.Bound{}),
	} {
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for b.Loop() {
				err := lock.Do(ctx, l, "k", lock.Options{}, func(context.Context, lock.Fence) error { return nil })
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
