package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// The reply to the create is lost and the link stays silent: Acquire cannot know whether there is a node, and says
// that the server is down. The node goes as soon as the link is back, and not with the session only, which lives on.
func TestOrphanIsSweptWithinTheSession(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	for _, row := range []struct {
		name   string
		kind   kind
		broken bool // the connection breaks and the next one hangs; otherwise it hangs
	}{
		{"sequential, silent", sequentialKind(), false},
		{"sequential, broken", sequentialKind(), true},
		{"ephemeral, broken", ephemeralKind(), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			nodes := func() int { return len(childrenOf(t, c, row.kind.folder(t))) }
			p := newProxy(t, host)
			s := open(t, Config{Hosts: []string{p.Addr()}, SessionTimeout: 20 * time.Second})
			l := row.kind.open(s)
			release(t, acquire(t, l)) // makes the folder
			session, _ := s.now()
			create := p.Set(wire.Trap{On: wire.ToServer, Do: wire.HoldReply})
			failed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() { _, err := l.Acquire(ctx, keyOf(t), lock.Options{}); failed <- err }()
			<-create.Sprung()
			p.silence()
			eventually(t, "an orphan", func() bool { return nodes() == 1 })
			if row.broken {
				p.Cut()
			}
			if err := <-failed; !errors.Is(err, lock.ErrDown) {
				t.Errorf("acquire: %v", err)
			}
			if nodes() != 1 {
				t.Fatal("the orphan has gone before the link was back: it shows nothing")
			}
			p.Cut() // the reply is lost
			p.Silence()
			eventually(t, "the orphan is gone", func() bool { return nodes() == 0 })
			if session.over.Err() != nil {
				t.Error("only the end of the session removed it")
			}
			connected(t, s)
			release(t, acquire(t, l))
		})
	}
}

// A create without an answer is searched for as long as its session can live without us: until then it may arrive.
func TestHowLongACreateIsSearchedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Session{}
		a := &attempt{
			acquisition: &acquisition{s: s, dir: "/stock/key"}, g: &generation{s: s, timeout: 20 * time.Second},
		}
		o := a.unanswered("guid")
		want := orphan{node: node{dir: "/stock/key", guid: "guid"}, until: time.Now().Add(20 * time.Second)}
		if o != want {
			t.Errorf("%+v, want %+v", o, want)
		}
	})
}

// Where the link comes back at once, the node is found by its guid, and the place in the queue is kept.
func TestPlaceOutlivesTheReplyOfCreate(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := dial(t, p.Addr())
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q)) // reads the record of fences
	holder := acquire(t, other)
	connected(t, s)
	p.cutAtNext(1, true)
	next := acquireLater(t, q)
	eventually(t, "a node", func() bool { return len(queue(t, c)) == 2 })
	before := parseQueue(queue(t, c))
	eventually(t, "it waits", func() bool { return s.watchCount() == 1 })
	if after := parseQueue(queue(t, c)); !slices.Equal(after, before) {
		t.Errorf("queue is %v, was %v", after, before)
	}
	release(t, holder)
	lease := <-next
	_, stat, err := c.Exists(folderOf(t) + "/" + before[1].name)
	must(t, err)
	if want := fenceOf(t, c, stat.Czxid); lease.Fence() != want {
		t.Errorf("fence %d, want that of its node, %d", lease.Fence(), want)
	}
	release(t, lease)
}

// rooted makes a session whose root is root.
func rooted(t *testing.T, host, root string) *Session {
	t.Helper()
	return open(t, Config{Hosts: []string{host}, Root: root})
}

// Where the service may not create, list, read or delete, every operation says so at once, names the root and the
// fix, and leaves nothing.
func TestWithoutPermission(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds() {
		for _, row := range []struct {
			name                   string
			allowed                int32
			mayAcquire, mayNotList bool
		}{
			{name: "nothing is allowed", allowed: 0, mayNotList: true},
			{name: "reading only", allowed: zk.PermRead},
			{name: "all but deleting", allowed: zk.PermAll &^ zk.PermDelete, mayAcquire: true},
		} {
			t.Run(k.name+"/"+row.name, func(t *testing.T) {
				t.Parallel()
				c := raw(t, host)
				root := "/denied-" + uuid.NewString()
				s := rooted(t, host, root)
				l := k.open(s)
				release(t, acquire(t, l)) // makes the folder
				dir := root + strings.TrimPrefix(k.folder(t), rootOf(t))
				acl := append(zk.WorldACL(row.allowed), zk.DigestACL(zk.PermAll, "op", "secret")...)
				for _, path := range []string{root, dir} {
					_, err := c.SetACL(path, acl, -1)
					must(t, err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				fix := "not-allowed (root=" + root
				if row.mayAcquire {
					lease, err := l.Acquire(ctx, keyOf(t), lock.Options{})
					must(t, err)
					namesTheFix(t, "release", lease.Release(), zk.ErrNoAuth, fix)
				} else {
					err := refused(ctx, zk.ErrNoAuth, l, keyOf(t), lock.Options{})
					namesTheFix(t, "acquire", err, zk.ErrNoAuth, fix)
					err = refused(ctx, zk.ErrNoAuth, l, keyOf(t), lock.Options{TryOnce: true})
					namesTheFix(t, "try", err, zk.ErrNoAuth, fix)
					err = refused(ctx, zk.ErrNoAuth, l, keyOf(t)+" unused", lock.Options{})
					namesTheFix(t, "acquire another key", err, zk.ErrNoAuth, fix)
				}
				if row.mayNotList {
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
	}
}

// The folder of a key, or one above it, is another program's ephemeral node, which can have no children.
func TestAnEphemeralNodeWhereTheFolderBelongs(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	const fix = "foreign-nodes"
	for _, k := range kinds() {
		root := "/foreign-" + uuid.NewString()
		if _, err := c.Create(root, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for how, o := range map[string]lock.Options{"wait": {}, "try": {TryOnce: true}} {
			err := refused(ctx, zk.ErrNoChildrenForEphemerals, k.open(rooted(t, host, root)), keyOf(t), o)
			namesTheFix(t, k.name+", "+how, err, zk.ErrNoChildrenForEphemerals, fix)
		}
		must(t, c.Delete(root, -1))
	}
}

// refused returns why an acquisition fails. It asks again where it fails for another cause, as when a busy computer
// keeps the server from answering in time.
func refused(ctx context.Context, cause error, l lock.Locker, key string, o lock.Options) error {
	for {
		_, err := l.Acquire(ctx, key, o)
		if !errors.Is(err, lock.ErrDown) || errors.Is(err, cause) || ctx.Err() != nil {
			return err
		}
	}
}

// namesTheFix checks the answer that a fault of the ensemble's contents gets.
func namesTheFix(t *testing.T, what string, err, cause error, fix string) {
	t.Helper()
	var down *lock.DownError
	if !errors.As(err, &down) || !errors.Is(err, cause) || errors.Is(err, lock.ErrHeld) ||
		!strings.Contains(lock.Coded(down.Reason, down.Values), fix) {
		t.Errorf("%s: %v, want a DownError that says %q, because of %v", what, err, fix, cause)
	}
}

// A place that comes when its caller has given up is given back, while the session lives on.
func TestAPlaceThatComesTooLate(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}, SessionTimeout: 20 * time.Second})
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q))
	holder := acquire(t, other)
	create := p.Set(wire.Trap{On: wire.ToServer, Do: wire.HoldReply})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-create.Sprung(); cancel() }()
	if lease, err := q.Acquire(ctx, keyOf(t), lock.Options{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("lease %v, %v; want context.Canceled", lease, err)
	}
	if left := queue(t, c); len(left) != 2 {
		t.Fatalf("queue is %v; without a second node this shows nothing", left)
	}
	create.Release()
	eventually(t, "the holder alone", func() bool { return len(queue(t, c)) == 1 })
	release(t, holder)
}
