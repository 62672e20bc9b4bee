package locktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// Carts tests lock.All on a lock: workers of two lockers, which stand for two processes, take overlapping sets of
// keys in every order. No key may have two holders, a later holder must have a larger fence if the lock is fenced, no
// worker may wait for ever, and if a key cannot be acquired, the others must become free.
func Carts(t *testing.T, fenced bool, lockers [2]lock.Locker) {
	keys := []string{t.Name() + "-a", t.Name() + "-b", t.Name() + "-c", t.Name() + "-d"}
	t.Run("overlapping sets", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var mu sync.Mutex
		holder, last := map[string]string{}, map[string]lock.Fence{}
		var workers sync.WaitGroup
		for worker := range 6 {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			workers.Go(func() {
				for turn := range 8 {
					name := fmt.Sprintf("worker %d, turn %d", worker, turn)
					order := r.Perm(len(keys))[:2+r.IntN(3)]
					wanted := make([]string, len(order))
					for i, k := range order {
						wanted[i] = keys[k]
					}
					err := lock.All(ctx, lockers[worker%2], wanted, lock.Options{Owner: name},
						func(_ context.Context, fences map[string]lock.Fence) error {
							mu.Lock()
							for _, key := range wanted {
								if other := holder[key]; other != "" {
									t.Errorf("%s has %s, and so has %s", name, key, other)
								}
								if f := fences[key]; fenced && f <= last[key] {
									t.Errorf("%s: fence %d of %s after %d", name, f, key, last[key])
								}
								holder[key], last[key] = name, fences[key]
							}
							mu.Unlock()
							time.Sleep(time.Millisecond) // long enough for holds to overlap
							mu.Lock()
							defer mu.Unlock()
							for _, key := range wanted {
								holder[key] = ""
							}
							return nil
						})
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
				}
			})
		}
		workers.Wait()
	})
	t.Run("one cannot be had", func(t *testing.T) {
		free := func(key string) error {
			return lock.Do(t.Context(), lockers[1], key, lock.Options{TryOnce: true},
				func(context.Context, lock.Fence) error { return nil })
		}
		err := lock.Do(t.Context(), lockers[0], keys[2], lock.Options{}, func(context.Context, lock.Fence) error {
			all := func(most time.Duration) error {
				wait, cancel := context.WithTimeout(t.Context(), most)
				defer cancel()
				return lock.All(t.Context(), lockers[1], keys, lock.Options{Wait: wait},
					func(context.Context, map[string]lock.Fence) error { return errors.New("work began") })
			}
			err := all(300 * time.Millisecond)
			if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, lock.ErrHeld) {
				err = all(10 * time.Second) // a busy computer had not come as far as the key that is held
			}
			if !errors.Is(err, lock.ErrHeld) {
				t.Errorf("err = %v, want ErrHeld", err)
			}
			for _, key := range []string{keys[0], keys[1], keys[3]} {
				if err := free(key); err != nil {
					t.Errorf("%s is not free: %v", key, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
