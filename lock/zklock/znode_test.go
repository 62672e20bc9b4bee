package zklock

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, row := range []struct {
		why, name string
		sequence  int32
		ours      bool
	}{
		{"Curator's and ours", "_c_6f1b7c1e-9a3c-4a53-9d1a-0c8f3f5d7e21-lock-0000000012", 12, true},
		{"the client library's own lock", "_c_8f14e45fceea167a5a36dedd4bea2543-lock-2147483647", 2147483647, true},
		{"after the counter wrapped", "_c_x-lock--2147483648", -2147483648, true},
		{"ten digits with the sign", "_c_x-lock--000000001", -1, true},
		{"a guid that looks like a lock", "_c_-lock-0000000001-lock-0000000002", 2, true},
		{"kazoo: another queue, if anything", "6f1b__lock__0000000001", 0, false},
		{"too short", "_c_x-lock-12", 0, false},
		{"too large", "_c_x-lock-2147483648", 0, false},
		{"padded", "_c_x-lock-00000000012", 0, false},
		{"minus nothing", "_c_x-lock--000000000", 0, false},
		{"signed", "_c_x-lock-+000000012", 0, false},
		{"underscored", "_c_x-lock-1_00000000", 0, false},
		{"no number", "_c_x-lock-", 0, false},
		{"nothing", "", 0, false},
	} {
		if c, ok := parse(row.name); ok != row.ours || c.sequence != row.sequence {
			t.Errorf("%s: parse(%q) = %v, %v", row.why, row.name, c, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("_c_6f1b7c1e-9a3c-4a53-9d1a-0c8f3f5d7e21-lock-0000000012")
	f.Add("-lock--2147483648")
	f.Add("x-lock--000000001")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := parse(name)
		if !ok {
			return
		}
		// What is ours is exactly what a server can have appended.
		if whole := fmt.Sprintf("-lock-%010d", c.sequence); c.name != name || !strings.HasSuffix(name, whole) {
			t.Errorf("parse(%q) = %v", name, c)
		}
	})
}

func name(sequence int32) string { return fmt.Sprintf("_c_x-lock-%010d", sequence) }

func TestLocate(t *testing.T) {
	const last = 1<<31 - 1
	for _, row := range []struct {
		why      string
		children []string
		own      string
		want     place
	}{
		{"alone", []string{name(7)}, name(7), place{true, 0, "", name(7)}},
		{"first", []string{name(9), name(7), name(8)}, name(7), place{true, 0, "", name(7)}},
		{"third", []string{name(9), name(7), name(8)}, name(9), place{true, 2, name(8), name(7)}},
		{"gone", []string{name(9), name(7)}, name(8), place{false, 1, name(7), name(7)}},
		{"foreign children", []string{"a", name(8), "x-lock-1"}, name(8), place{true, 0, "", name(8)}},
		{"behind the last number", []string{name(-1 << 31), name(last)}, name(-1 << 31), place{true, 1, name(last), name(last)}},
		{"the last number", []string{name(-1 << 31), name(last)}, name(last), place{true, 0, "", name(last)}},
		{"from the last negative number", []string{name(0), name(-1)}, name(0), place{true, 1, name(-1), name(-1)}},
	} {
		if got := locate(row.children, row.own); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.why, got, row.want)
		}
	}
}

// Every order of the children must give the same place, which agrees with the sorted queue.
func FuzzLocate(f *testing.F) {
	f.Add(int32(-1<<31), uint8(5), uint8(2))
	f.Add(int32(1<<31-3), uint8(9), uint8(8))
	f.Fuzz(func(t *testing.T, first int32, n, own uint8) {
		if n == 0 {
			return
		}
		var names []string
		for i := range int32(n) {
			names = append(names, name(first+i))
		}
		own %= n
		shuffled := slices.Clone(names)
		slices.Reverse(shuffled[:len(shuffled)/2])
		slices.Reverse(shuffled)
		want := place{found: true, ahead: int(own), head: names[0]}
		if own > 0 {
			want.before = names[own-1]
		}
		if got := locate(shuffled, names[own]); got != want {
			t.Errorf("%v of %v: %+v, want %+v", names[own], shuffled, got, want)
		}
		queue := contenders(shuffled)
		for i, c := range queue {
			if c.name != names[i] {
				t.Errorf("place %d is %s, want %s", i, c.name, names[i])
			}
		}
	})
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

func TestRoots(t *testing.T) {
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
