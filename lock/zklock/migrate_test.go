package zklock

import (
	"context"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

// The order of an installation: credentials for all, then nodes for their creators alone, then the migration. Holders
// and waiters keep their places, fences go on, and nothing is open at the end. A process without credentials is refused
// from then on, and cannot begin the fences again.
func TestMigrate(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			root := rootOf(t) + "-" + k.name
			config := Config{Hosts: []string{host}, ConnectTimeout: 10 * time.Second, Root: root}
			old := open(t, config)
			release(t, acquire(t, k.open(old)))
			config.Credentials = []string{ours}
			before := open(t, config) // makes open nodes still
			config.CreatorOnly = true
			after := open(t, config)
			c := withAuth(t, host)

			holder := acquire(t, k.open(before))
			next := acquireLater(t, k.open(after))
			eventually(t, "a waiter", func() bool { return after.watchCount() == 1 })
			if len(openNodes(t, c, root)) < 5 {
				t.Errorf("only %v are open before the migration", openNodes(t, c, root))
			}
			last := 0
			seen, changed, err := after.Migrate(t.Context(), func(seen, _ int) { last = seen })
			if err != nil || seen < 5 || changed < 5 || last != seen {
				t.Errorf("seen %d (last %d), changed %d, %v", seen, last, changed, err)
			}
			if found := openNodes(t, c, root); len(found) > 0 {
				t.Errorf("open after the migration: %v", found)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			err = refused(ctx, zk.ErrNoAuth, k.open(old), keyOf(t), lock.Options{})
			namesTheFix(t, "without credentials", err, zk.ErrNoAuth, "not-allowed")
			if err := holder.Err(); err != nil {
				t.Errorf("the holder lost its lease: %v", err)
			}
			fence := holder.Fence()
			release(t, holder)
			lease := <-next
			if lease.Fence() <= fence {
				t.Errorf("fence %d after %d", lease.Fence(), fence)
			}
			release(t, lease)

			if _, changed, err := after.Migrate(t.Context(), nil); err != nil || changed > 0 {
				t.Errorf("again: changed %d, %v", changed, err)
			}
			if _, changed, err := before.Migrate(t.Context(), nil); err != nil || changed == 0 {
				t.Errorf("back: changed %d, %v", changed, err)
			}
			lease = acquire(t, k.open(old))
			if lease.Fence() <= fence {
				t.Errorf("fence %d after %d", lease.Fence(), fence)
			}
			release(t, lease)
		})
	}
}

// Credentials are replaced while instances have both, the old ones and the new ones.
func TestMigrateToOtherCredentials(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	root := "/replaced-" + uuid.NewString()
	with := func(credentials ...string) *Session {
		return open(t, Config{
			Hosts: []string{host}, Root: root, ConnectTimeout: 10 * time.Second, Credentials: credentials,
			CreatorOnly: true,
		})
	}
	const next = "stock:next"
	first, both := with(ours), with(ours, next)
	lease := acquire(t, NewSequential(first))
	_, _, err := both.Migrate(t.Context(), nil)
	must(t, err)
	second := with(next)
	waiting := acquireLater(t, NewSequential(second))
	release(t, lease)
	release(t, <-waiting)
	_, _, err = second.Migrate(t.Context(), nil)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = refused(ctx, zk.ErrNoAuth, NewSequential(first), keyOf(t), lock.Options{})
	namesTheFix(t, "with the old credentials", err, zk.ErrNoAuth, "not-allowed")
}

func TestMigrateWhatIsNotThere(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := owned(t, host)
	if seen, changed, err := s.Migrate(t.Context(), nil); seen != 0 || changed != 0 || err != nil {
		t.Errorf("no root: seen %d, changed %d, %v", seen, changed, err)
	}
	if _, _, err := rooted(t, host, "/").Migrate(t.Context(), nil); err == nil {
		t.Error("it changes the whole ensemble")
	}
}
