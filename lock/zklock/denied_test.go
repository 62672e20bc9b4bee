package zklock

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

// rooted makes a session whose root is root.
func rooted(t *testing.T, host, root string) *Session {
	t.Helper()
	return open(t, Config{Hosts: []string{host}, Root: root})
}

// Where the service may not create, list, read or delete, every operation says so at once, names the root and the fix, and leaves nothing.
func TestWithoutPermission(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			for what, perms := range map[string]int32{"nothing is allowed": 0, "reading only": zk.PermRead, "all but deleting": zk.PermAll &^ zk.PermDelete} {
				t.Run(what, func(t *testing.T) {
					root := "/denied-" + uuid.NewString()
					s := rooted(t, host, root)
					l := k.open(s)
					release(t, acquire(t, l, 20*time.Second)) // makes the folder
					dir := root + strings.TrimPrefix(k.folder(t), DefaultRoot)
					acl := append(zk.WorldACL(perms), zk.DigestACL(zk.PermAll, "op", "secret")...)
					for _, path := range []string{root, dir} {
						_, err := c.SetACL(path, acl, -1)
						must(t, err)
					}
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					fix := "setAcl -R " + root
					if perms&zk.PermDelete == 0 && perms&zk.PermCreate != 0 {
						lease, err := l.Acquire(ctx, keyOf(t), lock.Options{})
						must(t, err)
						namesTheFix(t, "release", lease.Release(), zk.ErrNoAuth, fix)
					} else {
						_, err := l.Acquire(ctx, keyOf(t), lock.Options{})
						namesTheFix(t, "acquire", err, zk.ErrNoAuth, fix)
						_, err = l.Acquire(ctx, keyOf(t), lock.Options{TryOnce: true})
						namesTheFix(t, "try", err, zk.ErrNoAuth, fix)
						_, err = l.Acquire(ctx, keyOf(t)+" unused", lock.Options{})
						namesTheFix(t, "acquire another key", err, zk.ErrNoAuth, fix)
					}
					if perms == 0 {
						_, err := l.Keys(ctx)
						namesTheFix(t, "keys", err, zk.ErrNoAuth, fix)
					}
					if ctx.Err() != nil {
						t.Error("it hung")
					}
					s.Close() // takes with it what could not be deleted
					must(t, c.AddAuth("digest", []byte("op:secret")))
					names, _, err := c.Children(dir)
					if err != nil || len(names) != 0 {
						t.Errorf("left behind: %v, %v", names, err)
					}
				})
			}
		})
	}
}

// The folder of a key, or one above it, is another program's ephemeral node, which can have no children.
func TestAnEphemeralNodeWhereTheFolderBelongs(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	for _, k := range kinds() {
		root := "/foreign-" + uuid.NewString()
		if _, err := c.Create(root, nil, zk.FlagEphemeral, everyone()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for how, o := range map[string]lock.Options{"wait": {}, "try": {TryOnce: true}} {
			_, err := k.open(rooted(t, host, root)).Acquire(ctx, keyOf(t), o)
			namesTheFix(t, k.name+", "+how, err, zk.ErrNoChildrenForEphemerals, "delete them, or configure another root")
		}
		must(t, c.Delete(root, -1))
	}
}
