package zklock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxKey bounds a key, in bytes. Escaped it is at most three times as long.
const maxKey = 1024

// folder is the path of the node that holds the queue of key.
func (s *Session) folder(key string) (string, error) {
	switch {
	case key == "":
		return "", errors.New("lock: the key is empty")
	case len(key) > maxKey:
		return "", fmt.Errorf("lock: the key has %d bytes, and may have %d", len(key), maxKey)
	}
	return s.config.Root + "/" + escape(key), nil
}

// escape makes a node name of any key, and different ones of different keys: letters, digits and most ASCII punctuation stay, every
// other byte becomes %XX. ZooKeeper itself would refuse "/", control characters, and, because it counts in UTF-16, everything
// outside the basic plane; "." and ".." have a meaning, and "zookeeper" is reserved below "/".
func escape(key string) string {
	var b strings.Builder
	b.Grow(len(key))
	reserved := key == "." || key == ".." || key == "zookeeper"
	for i := range len(key) {
		c := key[i]
		if c <= ' ' || c > '~' || c == '/' || c == '%' || reserved && i == 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// checkRoot refuses what could not hold lock folders.
func checkRoot(root string) error {
	if root == "/" {
		return nil
	}
	names, rooted := strings.CutPrefix(strings.TrimSuffix(root, "/"), "/")
	if !rooted {
		return fmt.Errorf("root %q must begin with a slash", root)
	}
	for i, name := range strings.Split(names, "/") {
		if name == "" || name == "." || name == ".." || i == 0 && name == "zookeeper" ||
			strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) {
			return fmt.Errorf("root %q: %q cannot be the name of a node", root, name)
		}
	}
	return nil
}

// Names are Curator's, so that its InterProcessMutex on the same path stands in the same queue: _c_<guid>-lock-<sequence>.
const (
	protected = "_c_"
	lockName  = "-lock-"
)

// A contender is a node that takes part. The server appended the sequence, %010d of the number of children the folder ever had.
type contender struct {
	name     string
	sequence int32
}

// parse reads a child's name. Other names are not ours, and are left alone.
func parse(name string) (contender, bool) {
	at := strings.LastIndex(name, lockName)
	if at < 0 {
		return contender{}, false
	}
	digits := name[at+len(lockName):]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || digits[0] == '+' || (digits[0] == '-') != (n < 0) {
		return contender{}, false
	}
	if len(digits) != len("-000000001") && (len(digits) != len("-2147483648") || n > -1_000_000_000) {
		return contender{}, false
	}
	return contender{name, int32(n)}, true
}

// compare orders contenders as they came: less than 0 if c came before d.
//
// The sequence is a signed 32-bit number and goes on at -2147483648 after 2147483647. Ordered by difference, the order holds across
// that, as long as those who wait at one time are fewer than 2^31. Curator and others order by value, and would let the
// newcomer in beside the holder; a folder that they share must be emptied before (at 1000 acquisitions per second: within 24 days),
// upon which the server removes it and begins at 0. That restart is also why the sequence is no fence.
func (c contender) compare(d contender) int {
	if difference := c.sequence - d.sequence; difference != 0 {
		return int(difference)
	}
	return strings.Compare(c.name, d.name) // cannot come from a server
}

// A place is where a contender stands in the queue.
type place struct {
	found  bool   // it is there at all
	ahead  int    // how many came before
	before string // the last of them: whom to wait for
	head   string // the first of all
}

// locate finds name among the children of its folder.
func locate(children []string, name string) place {
	own, _ := parse(name)
	var p place
	first, last := own, contender{}
	p.head = name
	for _, child := range children {
		if child == name {
			p.found = true
			continue
		}
		c, ok := parse(child)
		if !ok || c.compare(own) > 0 {
			continue
		}
		if p.ahead == 0 || c.compare(last) > 0 {
			last, p.before = c, c.name
		}
		if c.compare(first) < 0 {
			first, p.head = c, c.name
		}
		p.ahead++
	}
	return p
}
