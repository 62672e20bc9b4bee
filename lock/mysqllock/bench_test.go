package mysqllock

import (
	"fmt"
	"sync"
	"testing"

	"example.com/stock/lock"
)

// BenchmarkAcquireRelease is the cost of a turn on one key: of one who is alone, and of 30 who come again at once,
// spread over three processes' worth of locks and pools. HandOver, which the service puts around them, is left out:
// this is the lock.
//
//	go test ./lock/mysqllock -run '^$' -bench AcquireRelease -count 10 | benchstat -
func BenchmarkAcquireRelease(b *testing.B) {
	for _, row := range []struct {
		strategy string
		kind     kind
	}{{"mysql-table", table}, {"mysql-for-update", forUpdate}, {"mysql-get-lock", getLock}} {
		for _, contenders := range []int{1, 30} {
			b.Run(fmt.Sprintf("strategy=%s/contenders=%d", row.strategy, contenders), func(b *testing.B) {
				dsn := database(b)
				lockers := make([]locker, min(contenders, 3))
				for i := range lockers {
					lockers[i] = row.kind.open(b, dsn, 0)
					warm, err := lockers[i].Acquire(b.Context(), "k", lock.Options{})
					if err == nil {
						err = warm.Release()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				turns := make(chan struct{}, b.N)
				for range b.N {
					turns <- struct{}{}
				}
				close(turns)
				b.ResetTimer()
				var all sync.WaitGroup
				for i := range contenders {
					all.Go(func() {
						for range turns {
							lease, err := lockers[i%len(lockers)].Acquire(b.Context(), "k", lock.Options{})
							if err == nil {
								err = lease.Release()
							}
							if err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				all.Wait()
			})
		}
	}
}
