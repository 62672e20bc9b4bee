package zklock

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/stock/lock"
)

func TestRoots(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ root, folder string }{ // of key k; empty: the root is refused
		{"/", "/k"},
		{"/stock/locks", "/stock/locks/k"},
		{"/stock/locks/", "/stock/locks/k"},
		{"/a/zookeeper", "/a/zookeeper/k"},
		{"/zookeeper/locks", ""},
		{"stock", ""},
		{"//a", ""},
		{"/a//b", ""},
		{"/a/../b", ""},
		{"/a\x00", ""},
	} {
		s, err := Dial(Config{Hosts: []string{"127.0.0.1:1"}, Root: row.root})
		if err != nil {
			if row.folder != "" {
				t.Errorf("root %q: %v", row.root, err)
			}
			continue
		}
		if folder, err := s.folder("k"); folder != row.folder {
			t.Errorf("root %q: folder %q, %v; want %q", row.root, folder, err, row.folder)
		}
		s.Close()
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
	for _, key := range []string{"", string(make([]byte, lock.MaxKey+1))} {
		for _, l := range []interface {
			lock.Locker
			lock.Inspector
			lock.Evictor
		}{q, NewEphemeral(q.session)} {
			_, taken := l.Acquire(t.Context(), key, lock.Options{})
			_, inspected := l.Inspect(t.Context(), key)
			_, evicted := l.Evict(t.Context(), key)
			for _, err := range []error{taken, inspected, evicted} {
				if !errors.Is(err, lock.ErrInvalid) {
					t.Errorf("%T, key of %d bytes: %v", l, len(key), err)
				}
			}
		}
	}
}

// Names of nodes stay as they were: an older version must find them.
func TestEscape(t *testing.T) {
	for key, want := range map[string]string{
		"!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~": "!\"#$&'()*+,-.:;<=>?@[\\]^_`{|}~", "a /%\x7f": "a%20%2F%25%7F",
		".": "%2E", "..": "%2E.", "zookeeper": "%7Aookeeper", "...": "...",
	} {
		if got := escape(key); got != want {
			t.Errorf("escape(%q) = %q, want %q", key, got, want)
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
