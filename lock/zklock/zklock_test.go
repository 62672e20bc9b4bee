package zklock

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/lock"
)

func TestRoots(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		root string
		good bool
	}{
		{"/", true},
		{"/stock/locks", true},
		{"/stock/locks/", true},
		{"/a/zookeeper", true},
		{"/zookeeper/locks", false},
		{"stock", false},
		{"//a", false},
		{"/a//b", false},
		{"/a/../b", false},
		{"/a\x00", false},
	} {
		s, err := Dial(Config{Hosts: []string{"127.0.0.1:1"}, Root: row.root})
		if (err == nil) != row.good {
			t.Errorf("root %q: %v", row.root, err)
		}
		if err == nil {
			s.Close()
		}
	}
	if _, err := Dial(Config{}); err == nil {
		t.Error("no hosts, no error")
	}
}

func TestKeysDoNotMix(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q := NewSequential(dial(t, host))
	id := uuid.NewString()
	keys := []string{
		id, id + "/", "/" + id, id + "%2F", id + "\x00", id + " ", id + "😀", id + "\xff",
		".", "..", "zookeeper", "%2E",
	}
	for _, key := range keys {
		lease, err := q.Acquire(t.Context(), key, lock.Options{TryOnce: true})
		if err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		defer release(t, lease)
	}
	for _, key := range []string{"", string(make([]byte, maxKey+1))} {
		if _, err := q.Acquire(t.Context(), key, lock.Options{}); err == nil {
			t.Errorf("key of %d bytes was taken", len(key))
		}
	}
}

func FuzzEscape(f *testing.F) {
	for _, key := range []string{"stock", "a/b", "a%2Fb", ".", "..", "zookeeper", "😀", "\xff", "\x00"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		name := escape(key)
		back, err := url.PathUnescape(name)
		if err != nil || back != key {
			t.Errorf("escape(%q) = %q, which is %q, %v", key, name, back, err)
		}
		if name == "." || name == ".." || name == "zookeeper" ||
			strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
			t.Errorf("escape(%q) = %q, which is no node name", key, name)
		}
	})
}
