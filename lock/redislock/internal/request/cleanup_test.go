package request

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// An answer to a release that finds nothing does not prove that the request of before cannot come any more. A second
// one does, but only when the client has given up the request: one that ignores its ctx may send it later.
func TestOneAnswerProvesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		underWay time.Duration
		answers  []error // the last one is repeated
		looks    int     // at the end of the request
	}{
		"found at once":            {0, []error{nil}, 1},
		"found late":               {0, []error{lock.ErrExpired, nil}, 2},
		"never found":              {0, []error{lock.ErrExpired}, 2},
		"another has it":           {0, []error{lock.ErrTaken}, 2},
		"silent, then found":       {0, []error{lock.ErrDown, lock.ErrDown, nil}, 3},
		"silent in between":        {0, []error{lock.ErrExpired, lock.ErrDown, lock.ErrExpired}, 3},
		"found, and may come":      {time.Minute, []error{nil}, 1},
		"not found, and may come":  {time.Minute, []error{lock.ErrExpired}, 2},
		"silent, and may yet come": {time.Minute, []error{lock.ErrDown}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewCleanup(nil)
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var underWay atomic.Int32
				if row.underWay > 0 {
					_, _ = Ask(ctx, nil, &underWay, func() int { time.Sleep(row.underWay); return 0 })
				}
				var all, looks int
				c.Undo(ctx, &underWay, func(context.Context) error {
					all++
					if underWay.Load() == 0 {
						looks++
					}
					return row.answers[min(all, len(row.answers))-1]
				})
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if row.looks > 0 && looks != row.looks || row.looks == 0 && looks < 1000 {
					t.Errorf("it looked %d times, %d when nothing could come, want %d", all, looks, row.looks)
				}
			})
		})
	}
}
