package selltest

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// BenchmarkDeduct is a sale of one unit of one SKU by each way to write that is no lock, and by segments, with
// nothing to think about between read and write. What "none" costs is what the others are to be compared with; what
// it loses is not shown.
//
// strategy=bare is the loop that every shop begins with: BEGIN, a conditional UPDATE, INSERT, COMMIT, through
// database/sql and nothing else. It tells nobody what it read.
//
//	go test ./service/selltest -run '^$' -bench Deduct -count 10 | benchstat -col /store -
func BenchmarkDeduct(b *testing.B) {
	watch := func(b *testing.B) lock.Locker {
		l := redislock.NewWatchdog(dial(b, servers.Redis(b).Addr), redislock.WatchdogOptions{})
		b.Cleanup(func() { _ = l.Close() })
		return lock.HandOver(l, lock.Bound{})
	}
	for _, row := range []struct {
		strategy string
		seller   func(b *testing.B) service.Seller
		stores   []string
	}{
		{
			"none", func(*testing.B) service.Seller { return service.UnderLock(local.None{}) },
			[]string{"redis", "mysql"},
		},
		{"segmented", func(b *testing.B) service.Seller { return segmented(watch(b), 8) }, []string{"redis", "mysql"}},
		{"pessimistic", func(*testing.B) service.Seller { return service.InTransaction }, []string{"mysql"}},
		{
			"optimistic",
			func(*testing.B) service.Seller { return service.Optimistically(service.OptimisticOptions{}) },
			[]string{"redis", "mysql"},
		},
		{"atomic", func(*testing.B) service.Seller { return service.Atomically }, []string{"redis", "mysql"}},
		{
			"merged", func(*testing.B) service.Seller { return service.Merged(service.MergeOptions{}) },
			[]string{"redis", "mysql"},
		},
	} {
		for _, contenders := range []int{1, 30, 256} {
			for _, store := range row.stores {
				b.Run(
					fmt.Sprintf("strategy=%s/contenders=%d/store=%s", row.strategy, contenders, store),
					func(b *testing.B) {
						s := stage(b, row.seller(b), stores()[store](b))
						if _, err := s.SetStock(b.Context(), "", s.sku, service.MaxStock); err != nil {
							b.Fatal(err)
						}
						contend(b, contenders, func() error {
							_, err := s.sell(b.Context())
							return err
						})
					},
				)
			}
		}
	}
	for _, contenders := range []int{1, 30, 256} {
		b.Run(fmt.Sprintf("strategy=bare/contenders=%d/store=mysql", contenders), func(b *testing.B) {
			s := stage(b, service.Atomically, mysqlStore(b))
			if _, err := s.SetStock(b.Context(), "", s.sku, service.MaxStock); err != nil {
				b.Fatal(err)
			}
			pool, err := sql.Open("mysql", database.open(b)+"?interpolateParams=true")
			if err != nil {
				b.Fatal(err)
			}
			defer pool.Close()
			pool.SetMaxOpenConns(8) // as many as the others have
			pool.SetMaxIdleConns(8)
			contend(b, contenders, func() error { return bare(b.Context(), pool, s.sku) })
		})
	}
}

// contend calls sell b.N times, from that many goroutines.
func contend(b *testing.B, contenders int, sell func() error) {
	b.Helper()
	sales := make(chan struct{}, b.N)
	for range b.N {
		sales <- struct{}{}
	}
	close(sales)
	b.ResetTimer()
	var all sync.WaitGroup
	for range contenders {
		all.Go(func() {
			for range sales {
				if err := sell(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sold/s")
}

func bare(ctx context.Context, pool *sql.DB, sku service.SKU) error {
	tx, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, "UPDATE stock SET quantity = quantity - 1, sold = sold + 1, version = version + 1"+
		" WHERE sku = ? AND quantity >= 1", string(sku)); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (id, sku, epoch, version, quantity, quantity_read,"+
		" quantity_left, strategy, instance, request_id, fence, segment, created_at)"+
		" VALUES (?, ?, 1, 0, 1, 0, 0, 'bare', 'app-1', 'r-1', 0, 0, UTC_TIMESTAMP(6))",
		uuid.NewString(), string(sku)); err != nil {
		return err
	}
	return tx.Commit()
}

// BenchmarkMergeLimit is for the default of MergeOptions.Limit.
func BenchmarkMergeLimit(b *testing.B) {
	for _, limit := range []int{8, 32, 128, 512} {
		for _, store := range []string{"redis", "mysql"} {
			b.Run(fmt.Sprintf("limit=%d/store=%s", limit, store), func(b *testing.B) {
				s := stage(b, service.Merged(service.MergeOptions{Limit: limit}), stores()[store](b))
				if _, err := s.SetStock(b.Context(), "", s.sku, service.MaxStock); err != nil {
					b.Fatal(err)
				}
				contend(b, 512, func() error {
					_, err := s.sell(b.Context())
					return err
				})
			})
		}
	}
}
