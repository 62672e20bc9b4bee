package mysqllock

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

// On a server that ignores the character set of its clients no key and no owner becomes SQL: each key is a lock of its
// own, and other rows stay as they are.
func TestAServerWithGBK(t *testing.T) {
	t.Parallel()
	dsn := stacktest.GBK(t).URL
	migrate(t, dsn)
	names := append(stacktest.Injections(), "\xd6'; DROP TABLE locks; -- ", "\xd6\xd0' OR 1=1 -- ")
	for _, k := range all {
		t.Run(k.name, func(t *testing.T) {
			l, other := k.open(t, dsn, time.Minute), k.open(t, dsn, time.Minute)
			bystander := acquire(t, l, "bystander")
			for _, name := range names {
				o := lock.Options{Owner: name, TryOnce: true}
				lease, err := insist(func() (*lock.Lease, error) { return l.Acquire(t.Context(), name, o) })
				if err != nil {
					t.Errorf("acquire %q: %v", name, err)
					continue
				}
				again, err := insist(func() (*lock.Lease, error) { return other.Acquire(t.Context(), name, o) })
				if !errors.Is(err, lock.ErrHeld) {
					t.Errorf("acquire %q while it is held: %v, want ErrHeld", name, err)
					if err == nil {
						release(t, again)
					}
				}
				state := inspect(t, other, name)
				if state.Holder == nil || state.Holder.Who != ownerColumn(name) {
					t.Errorf("the holder of %q: %+v", name, state.Holder)
				}
				release(t, lease)
				evict(t, other, name)
			}
			_, err := other.Acquire(t.Context(), "bystander", lock.Options{TryOnce: true})
			if !errors.Is(err, lock.ErrHeld) {
				t.Errorf("the key of another: %v, want ErrHeld", err)
			}
			release(t, bystander)
		})
	}
}
